// Lets tests/security/masking hold what is masked against a corpus. Records of stdin end with a NUL
// byte; one with a byte 1 in it is a name and its value, one with bytes 2 between its parts the
// words of a command line, others are texts. Answered are the masked texts in the same form.
#include <iostream>
#include <string>
#include <vector>

#include "src/base/secrets.h"

int main() {
  std::string record;
  while (std::getline(std::cin, record, '\0')) {
    const size_t name = record.find('\1');
    std::string answer;
    if (name != std::string::npos) {
      answer = msprobe::base::MaskValue(record.substr(0, name), record.substr(name + 1)).text;
    } else if (record.find('\2') != std::string::npos) {
      std::vector<std::string> words;
      for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
        end = record.find('\2', begin);
        words.push_back(record.substr(begin, end - begin));
      }
      for (const std::string& word : msprobe::base::MaskArguments(words)) {
        answer += (answer.empty() ? "" : "\2") + word;
      }
    } else {
      answer = msprobe::base::MaskText(record).text;
    }
    std::cout << answer << '\0';
  }
  return 0;
}
