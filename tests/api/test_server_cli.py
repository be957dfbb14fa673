#!/usr/bin/env python3
"""Command line, configuration and who is let in."""
# timeout: 300

import re
import subprocess

from harness import case, run_cases
from serverlib import BUILD, Server, clean_env, is_error, json, os, shutil, sys, tempfile

PROGRAM = os.path.join(BUILD, "opensandbox-server")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOP = tempfile.mkdtemp(prefix="osb-cli-")


def run(*args, env=None):
    return subprocess.run([PROGRAM, *args], env=clean_env(**(env or {})), timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def fails(*args, says, env=None):
    r = run(*args, env=env)
    assert r.returncode == 1 and says in r.stderr, (args, r.returncode, r.stderr)


def config(text):
    path = os.path.join(TOP, "server.toml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


@case
def says_what_it_is():
    assert run("--version").stdout.startswith("opensandbox-server ")
    text = run("--help").stdout
    for word in ("--config", "--state-dir", "--kill-on-exit", "init-config"):
        assert word in text, word
    fails("--no-such-option", says="not understood")


@case
def the_documentation_is_the_table():
    for command, page in (("config-docs", "docs/configuration.md"),):
        with open(os.path.join(ROOT, page), encoding="utf-8") as f:
            assert run(command).stdout == f.read(), f"run: opensandbox-server {command} > {page}"
    with open(os.path.join(ROOT, "docs/server.md"), encoding="utf-8") as f:
        page = f.read()
    for command in ("error-docs", "route-docs"):
        assert run(command).stdout in page, f"docs/server.md lacks what {command} says"


@case
def manual_pages_have_the_options_and_no_others():
    for page in ("opensandbox-server.8", "opensandbox-runner.8", "execd.1"):
        with open(os.path.join(ROOT, "docs", "man", page), encoding="utf-8") as f:
            manual = f.read().replace("\\-", "-")
        text = subprocess.run([os.path.join(BUILD, page.rsplit(".", 1)[0]), "--help"], stdout=subprocess.PIPE,
                              text=True, check=True, timeout=60).stdout
        options = set(re.findall(r"--[a-z][a-z0-9-]*", text))
        written = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", manual))
        assert options == written, (page, options ^ written)


@case
def init_config_writes_what_can_be_read():
    path = os.path.join(TOP, "new.toml")
    assert run("init-config", path).returncode == 0
    assert os.stat(path).st_mode & 0o777 == 0o600
    fails("init-config", path, says="--force")
    assert run("init-config", path, "--force", "--example", "native").returncode == 0
    with Server("--config", path) as server:
        assert server.call("GET", "/health").status == 200
    fails("init-config", path, "--force", "--example", "abacus", says="examples")
    assert run("init-config", env={"HOME": TOP}).returncode == 0  # where a server looks that is told nothing
    assert os.stat(os.path.join(TOP, ".sandbox.toml")).st_mode & 0o777 == 0o600
    fails("init-config", env={"HOME": TOP}, says=".sandbox.toml")
    for example in ("docker", "kubernetes"):
        assert run("init-config", path, "--force", "--example", example).returncode == 0
        fails("--config", path, "--state-dir", TOP, says=f"no '{example}' driver")


@case
def mistakes_in_the_file_are_named():
    fails("--config", "/no/such/file.toml", says="/no/such/file.toml")
    fails("--config", config("[server]\nport = \"x\"\n"), says="line 2")
    fails("--config", config("[server\n"), says="line 1")
    fails("--config", config("[server]\nport = 70000\n"), says="server.port")
    fails("--config", config("[storage]\nallowed_host_paths = [\"relative\"]\n"), says="relative")
    fails("--config", config("[network]\nenabled = \"perhaps\"\n"), says="perhaps")
    fails("--config", config("[log]\nlevel = \"loud\"\n"), says="loud")
    # what would run with less isolation than asked for does not run
    fails("--config", config("[secure_runtime]\ntype = \"gvisor\"\n"), says="secure_runtime.type")
    fails("--set", "server.nonsense=1", says="server.nonsense")
    # the file, the setting and the value are all named, and nothing is left to be found out by a sandbox
    path = os.path.join(TOP, "server.toml")
    for section, key, value, bad in (("network", "dns", '["192.0.2.1", "dns.example"]', "dns.example"),
                                     ("network", "dns", '["::1", "::1", "::1", "::1"]', "at most 3"),
                                     ("network", "allowed_private", '["10.0.0.0/40"]', "10.0.0.0/40"),
                                     ("runtime", "execd_path", f'"{path}"', f"'{path}' is not a program"),
                                     ("runtime", "execd_path", '"/usr"', "'/usr' is not a program"),
                                     ("runtime", "execd_path", '"/no/such"', "'/no/such' cannot be opened"),
                                     ("runtime", "runner_path", f'"{path}"', f"'{path}' is not a program")):
        r = run("--config", config(f"[{section}]\n{key} = {value}\n"), "--port", "0", "--state-dir", TOP)
        assert r.returncode == 1, (key, value, r.stderr)
        assert f"'{path}': {section}.{key}: " in r.stderr and bad in r.stderr, r.stderr
    fails("--set", "network.dns=dns.example", says="network.dns: 'dns.example' is not an address")


@case
def a_setting_nobody_reads_is_warned_about():
    path = config("[server]\nthread_pool_size = 3\n")
    with open(os.path.join(TOP, "err"), "w+b") as err:
        with Server("--config", path, stderr=err):
            pass
        err.seek(0)
        assert b"server.thread_pool_size" in err.read()


@case
def without_a_key_it_stays_on_this_machine():
    fails("--host", "0.0.0.0", "--port", "0", "--state-dir", TOP, says="api_key")
    fails("--host", "::", "--port", "0", "--state-dir", TOP, says="api_key")
    with Server("--host", "0.0.0.0", "--allow-insecure") as server:
        assert server.call("GET", "/health").status == 200
    with Server("--host", "0.0.0.0", env={"OPENSANDBOX_INSECURE_SERVER": "YES"}) as server:
        assert server.call("GET", "/health").status == 200


@case
def the_key_opens_everything_but_the_gateway():
    key = "correct horse battery staple"
    with Server("--host", "0.0.0.0", key=key) as server:
        for path in ("/v1/sandboxes", "/v1/nowhere", "/metrics", "/healthz", "/v1/snapshots"):
            is_error(server.call("GET", path, key=False), 401, "MISSING_API_KEY")
            is_error(server.call("GET", path, key=False, fields=[("OPEN-SANDBOX-API-KEY", "")]),
                     401, "MISSING_API_KEY")
            for wrong in ("wrong", key + "x", key[:-1]):
                is_error(server.call("GET", path, key=False,
                                     fields=[("open-sandbox-api-key", wrong)]),
                         401, "INVALID_API_KEY")
        for path in ("/health", "/readyz"):
            assert server.call("GET", path, key=False).status == 200
        assert server.call("GET", "/metrics", key=False,
                           fields=[("Authorization", f"Bearer {key}")]).status == 200
        is_error(server.call("GET", "/v1/nowhere"), 404, "NOT_FOUND")
        sandbox = server.make()
        prefix, headers = server.endpoint(sandbox)
        assert server.call("GET", prefix + "/ping", key=False, fields=headers).status == 200
        is_error(server.call("GET", f"/sandboxes/{sandbox}/proxy/x", key=False), 401,
                 "MISSING_API_KEY")
        a = server.call("OPTIONS", "/v1/sandboxes", key=False, fields=[
            ("Origin", "https://any.example"), ("Access-Control-Request-Method", "GET")])
        assert a.status == 200 and a.get("Access-Control-Allow-Origin") == "https://any.example"


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)


@case
def the_server_gives_up_root_and_the_runner_keeps_it():
    with Server() as server:
        status = status_of(server.pid)
        assert "0" not in status["Uid"].split() + status["Gid"].split(), status["Uid"]
        assert status["Groups"].strip() == ""
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            assert int(status[kind], 16) == 0, (kind, status[kind])
        assert status["NoNewPrivs"] == "1"
        assert status_of(server.runner_pid())["Uid"].split()[0] == "0"
        for name, mode in (("server", 0o700), ("server/server.db", 0o600)):
            st = os.stat(os.path.join(server.state, name))
            assert st.st_mode & 0o777 == mode and st.st_uid == int(status["Uid"].split()[0]), name
        # what is the runner's is not the server's to change
        assert os.stat(os.path.join(server.state, "table")).st_uid == 0
        assert os.stat(server.state).st_uid == 0
        assert server.run(server.make(), "echo works") == "works"
    with Server("--set", "server.user=1234") as server:
        assert status_of(server.pid)["Uid"].split() == ["1234"] * 4
    with Server("--set", "server.user=root") as server:
        assert status_of(server.pid)["Uid"].split() == ["0"] * 4
    fails("--state-dir", TOP, "--port", "0", "--set", "server.user=nobody-of-that-name",
          says="no user")


@case
def a_store_that_is_not_a_plain_file_is_not_given_away():
    state = os.path.join(TOP, "tricked")
    os.makedirs(os.path.join(state, "server"))
    victim = os.path.join(TOP, "victim")
    with open(victim, "w", encoding="ascii") as f:
        f.write("mine")
    for plant in (os.symlink, os.link):
        plant(victim, os.path.join(state, "server", "server.db"))
        fails("--state-dir", state, "--port", "0", says="server.db")
        assert os.stat(victim).st_uid == 0
        os.unlink(os.path.join(state, "server", "server.db"))


@case
def the_environment_replaces_the_key_of_the_file():
    path = config("[server]\napi_key = \"of the file\"\n")
    with Server("--config", path, key="of the environment") as server:
        assert server.call("GET", "/v1/sandboxes").status == 200
        is_error(server.call("GET", "/v1/sandboxes", key=False,
                             fields=[("OPEN-SANDBOX-API-KEY", "of the file")]),
                 401, "INVALID_API_KEY")
    with Server("--config", path, env={"OPENSANDBOX_SERVER_API_KEY": ""}) as server:
        assert server.call("GET", "/v1/sandboxes").status == 200


@case
def image_names_are_mapped():
    rootfs = os.path.join(TOP, "rootfs")
    os.makedirs(rootfs, exist_ok=True)
    path = config(f"""
[images]
default = "host"
allowed_paths = [{json.dumps(TOP)}]
[images.aliases]
"gone:*" = "nowhere"
"exact:1" = "host"
""")
    with Server("--config", path) as server:
        for uri in ("python:3.12", "exact:1", "registry.example/a/b:c"):
            sandbox = server.make(image={"uri": uri})
            assert server.info(sandbox).json["image"]["uri"] == uri
            server.delete(sandbox)
        is_error(server.create(image={"uri": "gone:2"}), 404, "SANDBOX::IMAGE_NOT_FOUND")
        is_error(server.create(image={"uri": f"dir:{TOP}/absent"}), 404,
                 "SANDBOX::IMAGE_NOT_FOUND")
        is_error(server.create(image={"uri": f"dir:{TOP}/../etc"}), 400,
                 "SANDBOX::INVALID_PARAMETER")


@case
def a_tarball_becomes_an_image():
    state = os.path.join(TOP, "state")
    rootfs = os.path.join(TOP, "image")
    for name in ("bin", "tmp", "etc", "dev", "proc", "sys"):
        os.makedirs(os.path.join(rootfs, name), exist_ok=True)
    # the least that runs a command: a shell and the libraries it asks for (execd asks for some
    # only when it was built with sanitizers)
    for program in (os.path.realpath("/bin/sh"), os.path.join(BUILD, "execd")):
        asked = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, check=False).stdout
        for library in re.findall(r"(/\S+) \(0x", asked):
            os.makedirs(rootfs + os.path.dirname(library), exist_ok=True)
            shutil.copy(library, rootfs + library)
    shutil.copy(os.path.realpath("/bin/sh"), os.path.join(rootfs, "bin", "sh"))
    tarball = os.path.join(TOP, "image.tar")
    subprocess.run(["tar", "-C", rootfs, "-cf", tarball, "."], check=True)
    os.makedirs(state, exist_ok=True)
    for _ in range(2):
        assert run("image", "import", "tiny", tarball, "--state-dir", state).returncode == 0
    assert os.listdir(os.path.join(state, "layers")) == ["rootfs-tiny"]
    fails("image", "import", "../x", tarball, "--state-dir", state, says="cannot name")
    fails("image", "import", "x", "/no/such.tar", "--state-dir", state, says="tar")
    with Server("--kill-on-exit", state=state) as server:
        sandbox = server.make(image={"uri": "tiny"}, entrypoint=[
            "/bin/sh", "-c", "while :; do /bin/sh -c :; done"])
        assert server.run(sandbox, "echo /bin/*") == "/bin/sh"
        is_error(server.create(image={"uri": "tinier"}), 404, "SANDBOX::IMAGE_NOT_FOUND")


failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
shutil.rmtree(TOP, ignore_errors=True)
sys.exit(1 if failed else 0)
