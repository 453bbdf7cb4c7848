"""Secrets in many forms, and settings that are none. Everything here is made up: values are put
together from parts, so that no scanner of repositories takes them for real ones.

A form is a text with the name and the value in it, and what reads it: "json", "yaml", "shell" or
None. What reads it must read the masked text as well.
"""
import base64
import json
import random

CORE = "Fake" + "S3cr3t"  # in every value; nothing of it may be left

# The names of secrets, words in lower case: spelled in every style below.
NAMES = [
    "pwd", "db pwd", "password", "mysql root password", "passwd", "passphrase", "pass", "db pass",
    "auth", "torch auth", "authorization", "proxy authorization", "jwt", "login jwt", "pat", "gitlab pat",
    "ak", "obs ak", "sk", "ma sk", "access key", "access key id", "secret access key", "secret",
    "client secret", "pw", "admin pw", "key", "wandb key", "api key", "x api key", "account key", "keys",
    "api keys", "signing keys", "token", "hf token", "bot token", "access token", "hub api token", "tokens", "gh tokens",
    "credential", "credentials", "cuda credential", "bearer", "bearer token", "dsn", "sentry dsn", "sas",
    "azure sas", "webhook", "alert webhook", "webhook url", "cookie", "session cookie", "private key",
    "ssh private key", "session token", "shared access signature", "private token", "registry auth config",
    "encryption key", "swanlab token", "redis auth", "oauth token", "csrf token", "deploy key"]
# Model words are in them, the value tells: it must look random.
DOUBTFUL = ["test token", "new token", "shared key", "device token", "model key", "group token", "session", "private", "request signature", "token file"]
# Names that are one word.
GLUED = ["MYTOKEN", "HFTOKEN", "apikey", "accesskey", "hftoken", "authToken", "PGPASSWORD", "SSHPASS",
         "MYSQLPWD", "clientsecret", "wandbkey", "GITHUBTOKEN", "dbpassword", "secretkey", "AccountKey"]


def styles(name):
    """snake, kebab, SCREAMING, camel, Pascal, dotted, one after the other."""
    words = name.split()
    if name == "pwd":  # PWD is the folder
        words = ["my", "pwd"]
    yield "_".join(words)
    yield "-".join(words)
    yield "_".join(words).upper()
    yield words[0] + "".join(word.title() for word in words[1:])
    yield "".join(word.title() for word in words)
    yield "trainer." + "_".join(words)


VALUES = [
    CORE + "V4lue", CORE, CORE.lower() + "x", CORE + "-with-dashes_9", CORE + "+/base64==", "a!" + CORE + "#x%$^*",
    CORE + "." + CORE, "@" + CORE, CORE + ":" + CORE, "~" + CORE + "~", "Pa$$" + CORE, "1" * 12 + CORE, CORE + "=x"]
# Values that only fit where something quotes them.
QUOTED_VALUES = ["correct horse " + CORE, CORE + " battery, staple; and & " + CORE, "{" + CORE + "}", "it(" + CORE + ")", CORE + "," + CORE,
                 CORE + "\\\\" + CORE, "#" + CORE]

# (form, read by, takes quoted values)
FORMS = [
    ("export NAME=VALUE", "shell", False),
    ("NAME=VALUE python3 train.py --lr 1e-3", "shell", False),
    ("python3 train.py --lr 1e-3 --NAME VALUE --seed 1234", "shell", False),
    ("python3 train.py --NAME=VALUE --seed 1234", "shell", False),
    ("python3 train.py --NAME 'VALUE' --seed 1234", "shell", True),
    ("python3 train.py --NAME=\"VALUE\" --seed 1234", "shell", True),
    ("python3 train.py \\\n  --NAME \\\n  VALUE \\\n  --seed 1234", "shell", False),
    ("sh -c 'serve --NAME VALUE'", "shell", False),
    ("sh -c \"serve --NAME 'VALUE' --port 80\"", "shell", True),
    ("docker run -e NAME=VALUE image:1", "shell", False),
    ("curl -H 'NAME: VALUE' https://host.example/path", "shell", True),
    ("curl \"https://host.example/path?NAME=VALUE&page=2\"", "shell", False),
    ("{\"NAME\": \"VALUE\", \"lr\": 0.001}", "json", True),
    ("{\n    \"lr\": 0.001,\n    \"NAME\": \"VALUE\"\n}", "json", True),
    ("{\"NAME\":\"VALUE\",\"lr\":0.001}", "json", True),
    ("{\"NAME\": [\"VALUE\", \"VALUE\"], \"lr\": 0.001}", "json", True),
    ("{\"argv\": [\"train.py\", \"--NAME\", \"VALUE\", \"--lr\", \"0.001\"]}", "json", True),
    ("{\"argv\": [\"train.py\", \"--NAME=VALUE\", \"--lr\", \"0.001\"]}", "json", False),
    ("{\"env\": \"{\\\"NAME\\\": \\\"VALUE\\\", \\\"a\\\": 1}\", \"lr\": 0.001}", "json", False),
    ("{\"env\": {\"a\": {\"NAME\": \"VALUE\"}}}", "json", True),
    ("{\"cmd\": \"NAME=VALUE python3 train.py\"}", "json", False),
    ("NAME: VALUE", "yaml", False),
    ("lr: 0.001\nNAME: VALUE\nseed: 1", "yaml", False),
    ("hub:\n  NAME: VALUE  # of the team\n  lr: 1", "yaml", False),
    ("hub:\n  NAME: \"VALUE\"\n  lr: 1", "yaml", True),
    ("hub:\n  NAME: 'VALUE'\n", "yaml", True),
    ("hub: {user: me, NAME: 'VALUE', lr: 1}", "yaml", True),
    ("env:\n- name: a\n- NAME: VALUE\n", "yaml", False),
    ("NAME:\n  - VALUE\n  - VALUE\nlr: 1", "yaml", False),
    ("NAME: |\n  VALUE\n  VALUE\nlr: 1", "yaml", True),
    ("NAME = VALUE", None, True),
    ("[hub]\nNAME = \"VALUE\"\nlr = 0.001", None, True),
    ("[hub]\nNAME=VALUE\nlr=0.001", None, False),
    ("Server=host;NAME=VALUE;Database=x", None, False),
    ("{'NAME': 'VALUE', 'lr': 0.001}", None, True),
    ("Namespace(lr=0.001, NAME='VALUE', seed=1)", None, True),
    ("os.environ[\"NAME\"] = \"VALUE\"", None, True),
    ("2024-01-02 03:04:05 INFO hub NAME=VALUE lr=0.001", None, False),
    ("2024-01-02 03:04:05 INFO NAME: VALUE", None, False),
    ("<NAME>VALUE</NAME>", None, False),
    ("setenv NAME VALUE", "shell", False),
    ("torchrun train.py trainer.lr=1 +hub.NAME=VALUE", "shell", False),
]

B64 = base64.b64encode(("user:" + CORE + CORE).encode()).decode()
LONG = (CORE + "0123456789ABCDEFabcdef" * 3)[:40]
CAPITALS = "FAKEFAKE" + "01234567"
# By the look of the value alone, in texts without a name: what must be gone, and the value.
LOOKS = [(value, value[4:]) for value in (
    ["%s%s" % (prefix, LONG[:36]) for prefix in (
        "gh" + "p_", "gh" + "o_", "gh" + "s_", "github" + "_pat_", "gl" + "pat-", "h" + "f_", "s" + "k-", "s" + "k-proj-", "s" + "k-ant-api03-",
        "xo" + "xb-", "xo" + "xp-", "AI" + "za", "ya" + "29.", "LT" + "AI", "np" + "m_", "py" + "pi-", "dckr" + "_pat_", "S" + "G.",
        "s" + "k_live_", "hv" + "s.", "nv" + "api-", "gs" + "k_", "r" + "8_", "GO" + "CSPX-", "ATAT" + "T3", "xa" + "pp-")]
    + ["AK" + "IA" + CAPITALS, "AS" + "IA" + CAPITALS]
    + ["ey" + "J" + LONG + ".ey" + "J" + LONG + "." + LONG]
    + ["123456789:" + "AA" + LONG])]
LOOK_FORMS = ["VALUE", "using VALUE now", "x=VALUE", "--flag VALUE", "\"VALUE\"", "{\"x\": \"VALUE\"}", "- VALUE", "https://host.example/VALUE/x", "(VALUE)", "a,VALUE,b", "x: VALUE.", "'VALUE'", "first\nVALUE\nlast"]

PEM = "-----BEGIN %s-----\n" + CORE + "MIIBOgIBAAJBAK\nj34GkxFhD90vcN" + CORE + "==\n-----END %s-----"
# Whole texts; VALUE is the core.
TEXTS = [
    ("https://user:VALUE@host.example/path", None), ("http://VALUE@host.example:8080", None), ("postgres://u:VALUE@db/x?y=1", None),
    ("amqp://u:VALUE@mq:5672/", None), ("git+https://oauth2:VALUE@host.example/g.git", None), ("redis://:VALUE@host/0", None),
    ("https://user:a/VALUE@host.example/path", None), ("s3://VALUE:VALUE@bucket/x", None), ("http_proxy=http://u:VALUE@proxy:80 https_proxy=http://u:VALUE@proxy:80", "shell"),
    ("https://hooks.slack.example/services/T000/B000/VALUE", None), ("https://hooks.example/services/T/B/VALUE?sig=VALUE", None),
    ("https://chat.example/api/webhooks/123456/VALUE", None), ("https://open.example/open-apis/bot/v2/hook/VALUE", None),
    ("https://oapi.example/robot/send?access_token=VALUE", None), ("https://qyapi.example/cgi-bin/webhook/send?key=VALUE", None),
    ("https://x.blob.example/c/b?sv=2024-01-01&se=2025&sr=b&sp=r&sig=VALUE", None), ("https://b.s3.example/k?X-Amz-Credential=VALUE&X-Amz-Expires=60&X-Amz-Signature=VALUE", None),
    ("https://b.oss.example/k?OSSAccessKeyId=VALUE&Expires=1&Signature=VALUE", None), ("https://b.example/k?X-Amz-Security-Token=VALUE", None),
    ("https://h.example/cb#access_token=VALUE&state=1", None), ("https://h.example/cb?code=VALUE", None),
    ("Authorization: Bearer VALUE", None), ("curl -H \"Authorization: Bearer VALUE\" https://h.example", "shell"), ("authorization: bearer VALUE", None),
    ("HTTP_HEADERS=Authorization: Bearer VALUE", None), ("with Bearer VALUE in it", None), ("Authorization: Digest username=\"u\", response=\"VALUE\"", None),
    ("Authorization: token VALUE", None), ("Proxy-Authorization: Basic " + B64, None), ("-H 'Authorization: Basic " + B64 + "'", "shell"), ("sent Basic " + B64, None),
    ("Cookie: session=VALUE; theme=dark; csrf=VALUE", None), ("Set-Cookie: sid=VALUE; Path=/; HttpOnly", None), ("curl --cookie 'sid=VALUE; b=VALUE' https://h.example", "shell"),
    ("> Cookie: sid=VALUE; b=VALUE", None), ("X-Api-Key: VALUE", None), ("X-Auth-Token: VALUE", None), ("PRIVATE-TOKEN: VALUE", None),
    ("curl -u me:VALUE https://h.example", "shell"), ("curl --user 'me:VALUE' https://h.example", "shell"), ("sshpass -p VALUE ssh host", "shell"), ("sshpass -pVALUE ssh host", "shell"),
    ("docker login -u me -p VALUE registry.example", "shell"), ("mysql -u root -pVALUE db", "shell"), ("machine h.example login me password VALUE", None),
    (PEM % (("RSA " + "PRIVATE KEY",) * 2), None), (PEM % (("PRIVATE" + " KEY",) * 2), None), (PEM % (("OPENSSH " + "PRIVATE KEY",) * 2), None),
    (json.dumps({"key_pem": PEM % (("EC " + "PRIVATE KEY",) * 2), "lr": 1}), "json"),
    (json.dumps({"x": PEM % (("PRIVATE" + " KEY",) * 2), "lr": 1}), "json"),
    ("x: |\n  " + (PEM % (("PRIVATE" + " KEY",) * 2)).replace("\n", "\n  ") + "\nlr: 1", "yaml"),
    ("DefaultEndpointsProtocol=https;AccountName=a;AccountKey=VALUE;EndpointSuffix=x", None), ("Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey=VALUE", None),
    ("Server=h;Uid=sa;PWD=VALUE;Database=d", None), ("Driver={x};UID=sa;PWD=VALUE", None), ("host=h user=u password=VALUE dbname=d", None),
    ("//registry.example/:_authToken=VALUE", None), ("{\"auths\": {\"r.example\": {\"auth\": \"VALUE\"}}}", "json"), ("aws_secret_access_key = VALUE", None),
    ("{\"secrets\": {\"a\": \"VALUE\", \"b\": {\"c\": \"VALUE\"}}, \"lr\": 1}", "json"), ("secrets:\n  a: VALUE\n  b: VALUE\nlr: 1", "yaml"), ("credentials:\n  user: VALUE\nlr: 1", "yaml"),
    ("密码：VALUE", None), ("密码: VALUE", "yaml"), ("API key: VALUE", None), ("ENV HF_TOKEN VALUE", None), ("password='a'\\''VALUE'", None), ("PASSWORD=\"VALUE\"'VALUE'", "shell"),
    ("PASSWORD=a&VALUE", None), ("PASSWORD=a,VALUE", None), ("PASSWORD=a;VALUE", None), ("--password=a}VALUE", None), ("password: it's VALUE", None), ("password: \"a\\\"VALUE\"", "yaml"),
    ("{\"password\": \"a\\\"VALUE\"}", "json"), ("{\"password\": \"VALUE\\\\\"}", "json"), ("{\"a\": \"[{\\\"token\\\": \\\"VALUE\\\"}]\"}", "json"),
    ("{\"a\": \"{\\\"b\\\": \\\"{\\\\\\\"token\\\\\\\": \\\\\\\"VALUE\\\\\\\"}\\\"}\"}", "json"), ("{\"a\": \"x\\nTOKEN=VALUE\\ny\"}", "json"), ("{\"a\": \"--pw 'VALUE\"}", "json"),
    ("password: '''VALUE'''", None), ("password = \"\"\"\nVALUE\nVALUE\n\"\"\"", None), ("token=b'VALUE'", None), ("x=y TOKEN=VALUE z=w", "shell"), ("{\"password\": 123456, \"my access token\": \"VALUE\"}", "json")]


def secrets(seed=1, per_form=120):
    """(text, read by): every form with names and values drawn from all, each name in each style at least once."""
    draw = random.Random(seed)
    names = [style for name in NAMES for style in sorted(set(styles(name)))] + GLUED
    for form, reader, quoted in FORMS:
        values = VALUES + (QUOTED_VALUES if quoted else [])
        for i, name in enumerate(draw.sample(names, min(per_form, len(names)))):
            value = values[i % len(values)]
            if reader == "json":
                value = json.dumps(value)[1:-1]
            if reader == "shell" and any(c in value for c in "&;()#$!~*"):
                value = CORE
            if reader == "yaml" and (value[0] in "@{#~" or "#" in value or ": " in value or "\\" in value or "," in value):
                value = CORE
            if form.startswith("<") or "?NAME=" in form or "NAME=VALUE;" in form:
                value = CORE
            text = form.replace("NAME", name).replace("VALUE", value)
            yield text, reader
    for value, kept_out in LOOKS:
        for form in LOOK_FORMS:
            yield form.replace("VALUE", value), "json" if form.startswith("{") else None
    for text, reader in TEXTS:
        yield text.replace("VALUE", CORE), reader


def named():
    """(name, value) of variables and parameters."""
    for name in [style for each in NAMES for style in styles(each)] + GLUED:
        for value in VALUES + QUOTED_VALUES:
            yield name, value


def doubtful():
    for name in [style for each in DOUBTFUL for style in styles(each)]:
        for value in (CORE + "V4lue", LONG, CORE + "0123", "deadbeef0123456789" + CORE.lower()):
            yield name, value


def harmless():
    """Texts that stay byte for byte."""
    with open(__file__.replace("corpus.py", "harmless.txt"), encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if line.strip()]
