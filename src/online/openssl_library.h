// The functions of OpenSSL (1.1.1 to 3.x) that TLS needs, out of the libraries of this host.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include "msprobe/status.h"

namespace msprobe::online {

// NOLINTBEGIN(bugprone-macro-parentheses)
#define MSPROBE_SSL_FUNCTIONS(X) \
  X(OPENSSL_init_ssl)            \
  X(TLS_client_method)           \
  X(TLS_server_method)           \
  X(SSL_CTX_new)                 \
  X(SSL_CTX_free)                \
  X(SSL_CTX_ctrl)                \
  X(SSL_CTX_get_cert_store)      \
  X(SSL_CTX_set_num_tickets)     \
  X(SSL_CTX_set_verify)          \
  X(SSL_CTX_use_PrivateKey)      \
  X(SSL_CTX_use_certificate)     \
  X(SSL_CTX_check_private_key)   \
  X(SSL_new)                     \
  X(SSL_free)                    \
  X(SSL_set_fd)                  \
  X(SSL_connect)                 \
  X(SSL_accept)                  \
  X(SSL_read)                    \
  X(SSL_write)                   \
  X(SSL_shutdown)                \
  X(SSL_get_error)               \
  X(SSL_get_verify_result)

#define MSPROBE_CRYPTO_FUNCTIONS(X) \
  X(ERR_clear_error)                \
  X(ERR_get_error)                  \
  X(ERR_peek_last_error)            \
  X(ERR_error_string_n)             \
  X(BIO_free)                       \
  X(BIO_new_mem_buf)                \
  X(EVP_PKEY_free)                  \
  X(PEM_read_bio_PrivateKey)        \
  X(PEM_read_bio_X509)              \
  X(PEM_read_bio_X509_CRL)          \
  X(X509_CRL_free)                  \
  X(X509_free)                      \
  X(X509_STORE_add_cert)            \
  X(X509_STORE_add_crl)             \
  X(X509_STORE_set_flags)           \
  X(X509_verify_cert_error_string)

struct OpenSsl {
#define MSPROBE_MEMBER(name) decltype(&::name) name = nullptr;
  MSPROBE_SSL_FUNCTIONS(MSPROBE_MEMBER)
  MSPROBE_CRYPTO_FUNCTIONS(MSPROBE_MEMBER)
#undef MSPROBE_MEMBER
};
// NOLINTEND(bugprone-macro-parentheses)

// Opened once, and kept. An error says what was looked for.
Result<const OpenSsl*> OpenSslOfThisHost();

}  // namespace msprobe::online
