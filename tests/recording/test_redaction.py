"""What is taken out, what must stay, and that a name is the same pseudonym everywhere."""

from __future__ import annotations

import importlib
import pkgutil
import re
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recording_cases import GREP, NOON, ledger, observation, result, same_entries, same_frames

from diag_kit import observe
from diag_kit.errors import BadInput
from diag_kit.recording import Recording, open_recording, save
from diag_kit.records import Assumption, Calculation, Fact, Hypothesis, Note, Reason, Status, Verification
from diag_kit.redaction import Redactor


def redacted(text: str, **options: Any) -> str:
    redactor = Redactor(**options)
    redactor.learn(text)
    return redactor.text(text)


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
KEY = """-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmU=
QyNTUxOQAAACBhbGljZQ==
-----END OPENSSH PRIVATE KEY-----"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # key = value
        ("password=hunter2", "password=secret-1"),
        ("PASSWORD: 'two words'", "PASSWORD: 'secret-1'"),
        ('{"password": "a\\"b c", "lr": 0.1}', '{"password": "secret-1", "lr": 0.1}'),
        ("{'api_key': 'abc', 'lr': 1e-4}", "{'api_key': 'secret-1', 'lr': 1e-4}"),
        ('log "{\\"password\\": \\"pw\\"}"', 'log "{\\"password\\": \\"secret-1\\"}"'),
        ("WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567", "WANDB_API_KEY=secret-1"),
        ("export AWS_SECRET_ACCESS_KEY=ab/cd+ef,gh", "export AWS_SECRET_ACCESS_KEY=secret-1"),
        ("DB_PASSWORD=correct horse, battery\0HOME=/root\0", "DB_PASSWORD=secret-1\0HOME=/root\0"),
        ("AccountName=a;AccountKey=abcd1234==;Suffix=x", "AccountName=a;AccountKey=secret-1;Suffix=x"),
        ('os.environ["HF_TOKEN"] = "abcd1234efgh"', 'os.environ["HF_TOKEN"] = "secret-1"'),
        ("db_pass: s3cr3tpass", "db_pass: secret-1"),
        ("client_secret = xyz", "client_secret = secret-1"),
        ("password=123456", "password=secret-1"),
        # command lines
        ("train.py --api-key foo123 --lr 1e-4", "train.py --api-key secret-1 --lr 1e-4"),
        ("train.py\0--hub-token\0abcd1234efgh\0", "train.py\0--hub-token\0secret-1\0"),
        ('["train.py", "--password", "pw"]', '["train.py", "--password", "secret-1"]'),
        ("curl -s -u carol:pw http://x/", "curl -s -u secret-1 http://x/"),
        ("sshpass -p pw ssh x", "sshpass -p secret-1 ssh x"),
        ("machine api.wandb.ai login user password 0123abcd", "machine api.wandb.ai login user password secret-1"),
        ("mysql -u root -pMyS3cretPw9 db", "mysql -u root -psecret-1 db"),
        ("docker login -u foo -p DckrPw123 reg.io", "docker login -u foo -p secret-1 reg.io"),
        ("smbclient -U 'dom%smbPw99x' //h/s", "smbclient -U 'dom%secret-1' //h/s"),
        ("wandb login 0f23456789abcdef0123456789abcdef01234567", "wandb login secret-1"),
        ("OPENAI_KEY=plainvalueabc123XYZ", "OPENAI_KEY=secret-1"),
        # addresses and headers
        ("https://hooks.slack.com/services/T00000000/B00/XXXXabcd1234", "https://hooks.slack.com/services/secret-1"),
        ("https://discord.com/api/webhooks/123456789/AbCdEf-GhIjKlMnOpQr", "https://discord.com/api/webhooks/secret-1"),
        ("https://api.telegram.org/bot123456789:AAHdqTcvCH1vGWJxfSeof/send", "https://api.telegram.org/botsecret-1/send"),
        ("https://carol:p@ss@git.example.net/x", "https://secret-1@git.example.net/x"),
        ("https://abcd1234efgh@git.example.net/x", "https://secret-1@git.example.net/x"),
        ("Authorization: Bearer abcdef-123456", "Authorization: Bearer secret-1"),
        ("curl -H 'Authorization: Basic dXNlcjpwdw=='", "curl -H 'Authorization: Basic secret-1'"),
        ("got bearer abcd1234efgh", "got bearer secret-1"),
        ("https://s3.x.net/a?X-Amz-Signature=ab12&b=1", "https://s3.x.net/a?X-Amz-Signature=secret-1&b=1"),
        ("https://x.blob.net/a?sv=1&sig=ab%2F12", "https://x.blob.net/a?sv=1&sig=secret-1"),
        # tokens by their form
        ("hf_AbCdEfGhIjKlMnOp", "secret-1"),
        ("using ghp_abcdefghijklmnop1234.", "using secret-1."),
        ("github_pat_11ABCDEFG0abcdefghijkl", "secret-1"),
        ("AKIAIOSFODNN7EXAMPLE", "secret-1"),
        ("sk-proj-abc123abc123abc123", "secret-1"),
        ("xoxb-12345678-abcdefgh", "secret-1"),
        (f"jwt {JWT} end", "jwt secret-1 end"),
        (f"key\n{KEY}\nstep 1", "key\nsecret-1\nstep 1"),
        (KEY.replace("\n", "\\n"), "secret-1"),
        (KEY[:90] + "\nstep 1 loss 2.3", "secret-1\nstep 1 loss 2.3"),
        # names
        ("mail carol.smith@corp.com now", "mail person1@example.com now"),
        ("/home/carol/run.log", "/home/user1/run.log"),
        ("C:\\Users\\carol\\run.log", "C:\\Users\\user1\\run.log"),
        ("mount -t cifs -o username=carol,password=pw,vers=3", "mount -t cifs -o username=user1,password=secret-1,vers=3"),
        ("MLFLOW_TRACKING_USERNAME=carol", "MLFLOW_TRACKING_USERNAME=user1"),
        ("SLURM_NODELIST=bigbox[01-09]", "SLURM_NODELIST=host1[01-09]"),
        ("SLURM_JOB_NODELIST=bigbox", "SLURM_JOB_NODELIST=host1"),
        ("store.corp.net:/export on /mnt type nfs4 (rw)", "host1:/export on /mnt type nfs4 (rw)"),
        ("bigstore:/export /mnt nfs4 rw 0 0", "host1:/export /mnt nfs4 rw 0 0"),
        ("/mnt/nfs/home/carol_s/x /Users/dave", "/mnt/nfs/home/user1/x /Users/user2"),
        ("USER=carol\0LOGNAME=carol\0", "USER=user1\0LOGNAME=user1\0"),
        ("/home/carol/a\ncarol  1234 R python\n/scratch/carol/b", "/home/user1/a\nuser1  1234 R python\n/scratch/user1/b"),
        ("Linux 5.15.0-91-generic (bigbox) \t11/30/2026 \t_x86_64_\t(96 CPU)",
         "Linux 5.15.0-91-generic (host1) \t11/30/2026 \t_x86_64_\t(96 CPU)"),
        ("Linux bigbox 5.15.0 #1 SMP\nBIGBOX bigbox.corp.net", "Linux host1 5.15.0 #1 SMP\nhost1 host1.corp.net"),
        ('{"nodename": "bigbox"}', '{"nodename": "host1"}'),
        ("bigbox:771:790 [0] NCCL INFO x", "host1:771:790 [0] NCCL INFO x"),
        ("Nov 30 22:10:01 bigbox kernel: NVRM: Xid", "Nov 30 22:10:01 host1 kernel: NVRM: Xid"),
        ("ip-10-0-0-5.ec2.internal up", "host1 up"),
        # numbers of machines
        ("10.0.0.5:29500 and 10.0.0.6", "192.0.2.1:29500 and 192.0.2.2"),
        ("nfs 10.1.2.3:/export tcp://10.1.2.3:1", "nfs 192.0.2.1:/export tcp://192.0.2.1:1"),
        ("fe80::1ff:fe23:4567:890a%eth0", "2001:db8::1%eth0"),
        ("2a01:4f8::1 2A01:4F8::1", "2001:db8::1 2001:db8::1"),
        ("link/ether 3c:ec:ef:12:34:56 brd ff:ff:ff:ff:ff:ff", "link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff"),
        ("GPU-8c5c9b1a-1111-2222-3333-444455556666", "GPU-00000000-0000-0000-0000-000000000001"),
        ("Serial Number                         : 1650522015063", "Serial Number                         : serial1"),
        ("<serial>1650522015063</serial>", "<serial>serial1</serial>"),
        ("index, serial, name\n0, 1650522, H200\n1, 1650523, H200\n\n1, 1650523, x",
         "index, serial, name\n0, serial1, H200\n1, serial2, H200\n\n1, 1650523, x"),
    ],
)  # fmt: skip
def test_what_is_replaced(before: str, after: str) -> None:
    assert redacted(before) == after
    assert redacted(after) == after, "redacting again changes nothing"


UNCHANGED = """\
[rank0] epoch 0 step 120/35446 loss 2.3145 lr 1.0e-04 tokens/s 51234.2 grad_norm 0.98 time 12:34:56
{'loss': 2.31, 'token_accuracy': 0.91, 'num_tokens': 1234567, 'tokens': 12, 'forward_pass': 0.123, 'epoch': 0.01}
token: 512 pass: 3 max_tokens=4096 pad_token_id: 151643 eos_token='<|end_of_text|>' unk_token="[UNK]" tokenizer: llama3.model
 14%|#4        | 378/2610 [13:46:34<81:20:43, 131.20s/it, loss=6.02]
0:00:12.345 step=1e3 1.2.3 torch==2.13.0+cu130 python 3.11.7 kernel 5.15.0-91 NCCL version 2.27.5+cuda13.0
nvidia-cublas-cu12==12.4.5.8  nvidia-cudnn-cu12   9.1.0.70  cudnn version: 9.1.0.70  libcudnn.so.9.1.0.70  Chrome/123.0.1.86
127.0.0.1:29500 0.0.0.0:8888 ::1 [::]:22 255.255.255.0
00000000:3B:00.0 0000:3b:00.0 c10::Error at::native::add c10d::allreduce_ std::abs 2026-11-30T12:34:56.123Z 26-11-30-12-34-56
password: str = None, password=args.password, api_key=os.environ["X"], password=getpass(), token=tokenizer.eos_token
"use_auth_token": false, 'token': None, hf_transfer hf_hub_download sk-learn-contrib-imbalanced-pkg bypass: abc12345
x@self.weight @torch.no_grad() a@b.T git@github.com:org/repo.git aes128-gcm@openssh.com /home/ubuntu/x /root/y user@host
GPU 0: NVIDIA H200, 77.73 W, 700.00 W, 345 MHz, 100 %, N/A  Secret: none  key: value  PWD=/data/x OLDPWD=/data
sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 commit 0123456789abcdef0123456789abcdef01234567
"""


@pytest.mark.parametrize("line", UNCHANGED.splitlines())
def test_what_stays(line: str) -> None:
    redactor = Redactor()
    redactor.learn(line)
    assert redactor.text(line) == line
    assert redactor.counts == {}


@given(
    st.integers(0, 10**7),
    st.integers(1, 10**7),
    st.floats(-1e6, 1e6),
    st.floats(0, 1),
    st.floats(0, 1e12),
    st.times(),
    st.integers(0, 7),
    st.sampled_from([
        "[rank{rank}] step {step}/{total} loss {loss} lr {lr:.2e} tokens/s {rate:.1f} token {step}",
        "{{'loss': {loss:.4f}, 'learning_rate': {lr}, 'epoch': {lr:.2f}, 'num_tokens': {step}, 'pass': {rank}}}",
        "{time} | INFO | Train Epoch: {rank} [{step}/{total} (0%)]\tLoss: {loss:.6f}\tData (t) {lr:.3f}",
        "{{\"step\": {step}, \"loss\": {loss}, \"token_loss\": {lr}, \"gpu\": {rank}, \"t\": \"2026-11-30T{time}Z\"}}",
        "{step},{total},{loss:.3f},{lr:.6f},{rate:.0f},{rank}",
        "[rank{rank}]: {time} secret_loss={lr:.3f} keys/s: {rate:.2f} access {step}:{total}:{rank}",
        "  {lr:.0%}|### | {step}/{total} [{time}<{time}, {rate:.2f}s/it, loss={loss:.2f}]",
    ]),
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_metric_lines_pass_unchanged(
    step: int, total: int, loss: float, lr: float, rate: float, time: Any, rank: int, form: str
) -> None:
    line = form.format(step=step, total=total, loss=loss, lr=lr, rate=rate, time=time, rank=rank)
    redactor = Redactor()
    data = line.encode()
    redactor.learn(line)
    assert redactor.data(data) == data
    assert redactor.counts == {}


@given(st.binary(max_size=400))
@settings(max_examples=200, deadline=None)
def test_any_bytes_pass_and_a_second_pass_changes_nothing(data: bytes) -> None:
    redactor = Redactor()
    redactor.learn(data.decode("utf-8", "surrogateescape"))
    once = redactor.data(data)
    again = Redactor()
    again.learn(once.decode("utf-8", "surrogateescape"))
    assert again.data(once) == once
    if not redactor.counts:
        assert once == data


NAMES = [
    "/home/carol/run",
    "carol",
    "10.0.0.5",
    "10.0.0.6",
    "a@b.com",
    "bigbox",
    "Linux bigbox 5.1",
    "3c:ec:ef:12:34:56",
    "2a01::5:1",
]
SECRET_TEXT = ["password=", "hunter2x", "token=", "abcd1234ef", "--api-key ", "http://", "serial: ", "A1B2C3D4", "/Users/dave"]
TAKEN = ["user1", "host1", "192.0.2.1", "secret-1"]
PUNCTUATION = [" ", "\n", '"', "'", ",", "=", ":", "\0", "@", "step 1 ", "é", "\\"]
PIECE = st.tuples(st.sampled_from([*NAMES, *SECRET_TEXT, *TAKEN]), st.sampled_from(PUNCTUATION)).map("".join)
PIECES = st.lists(PIECE, max_size=10).map("".join)


@given(PIECES)
@settings(max_examples=500, deadline=None, derandomize=True)
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = redacted(text)
    assert redacted(once) == once


def test_different_values_get_different_pseudonyms_and_equal_ones_the_same() -> None:
    text = "".join(f"/home/person{n}x/a 10.0.{n // 200}.{n % 200 + 1} mail{n}@corp.com\n" for n in range(900))
    lines = redacted(text).splitlines()
    assert len({line.split()[0] for line in lines}) == len({line.split()[1] for line in lines}) == 900
    assert redacted(text + text).splitlines()[:900] == redacted(text + text).splitlines()[900:]


def test_a_real_user1_stays_itself_and_nobody_else_becomes_user1() -> None:
    text = "/home/carol/a /home/user1/b host2 10.0.0.9 192.0.2.1"
    assert redacted(text) == "/home/user2/a /home/user1/b host2 192.0.2.2 192.0.2.1"


def test_given_names_are_replaced_everywhere() -> None:
    text = "login bigbox as carol; BigBox.corp.net, carol_run_1.log, carols, bigbox2"
    assert (
        redacted(text, hosts=["bigbox"], users=["carol"])
        == "login host1 as user1; host1.corp.net, user1_run_1.log, carols, bigbox2"
    )


def test_a_target_is_taken_apart() -> None:
    redactor = Redactor(hosts=["carol@bigbox.corp.net:2222", "10.0.0.5", "localhost", "root@gpubox7"])
    assert redactor.target("carol@bigbox.corp.net:2222") == "user1@host1:2222"
    assert redactor.target("10.0.0.5") == "192.0.2.1"
    assert redactor.target("localhost") == "localhost"
    assert redactor.target("root@gpubox7") == "root@host2"
    assert redactor.text("bigbox and bigbox.corp.net are one: carol") == "host1 and host1 are one: user1"


@pytest.mark.parametrize("name", ["gpu", "train", "data", "h200", "pc", "7"])
def test_a_name_that_is_a_common_word_is_replaced_only_where_it_is_a_name(name: str) -> None:
    redactor = Redactor(hosts=[name])
    line = f"step 7 gpu 0 train loss 2.3 data h200 pc {name}"
    assert redactor.text(line) == line
    assert redactor.target(name) == "host1"
    assert len(redactor.warnings) == 1 and repr(name) in redactor.warnings[0]


def test_kinds_can_be_kept_but_secrets_cannot() -> None:
    text = "/home/carol/x 10.0.0.5 bigbox carol password=pw1"
    assert redacted(text, hosts=["bigbox"], keep=["user", "ip", "host"]) == text.replace("pw1", "secret-1")
    for wrong in ("secret", "everything"):
        with pytest.raises(BadInput, match=wrong):
            Redactor(keep=[wrong])


def test_a_secret_that_is_known_from_one_place_is_gone_from_all() -> None:
    text = "WANDB_API_KEY=abc123def456\nwandb: logged in with abc123def456!\nxabc123def456y"
    assert redacted(text) == "WANDB_API_KEY=secret-1\nwandb: logged in with secret-1!\nxsecret-1y"


def test_counts_are_places_by_kind() -> None:
    redactor = Redactor()
    redactor.learn("/home/carol/a")
    redactor.text("/home/carol/a carol 10.0.0.1 10.0.0.1 password=x1")
    assert redactor.counts == {"secret": 1, "ip": 2, "user": 2}


def test_names_learned_late_are_replaced_early() -> None:
    redactor = Redactor()
    for text in ("carol 12 R", "/home/carol/x"):
        redactor.learn(text)
    assert redactor.text("carol 12 R") == "user1 12 R"


# Commands


def test_a_command_reads_as_if_asked_with_the_pseudonyms() -> None:
    redactor = Redactor(users=["carol"])
    asked = result(GREP, "loss: [0-9]", "/home/carol/my run.log", "--password=p$w d", "--api-key", "k e y").command
    wanted = result(GREP, "loss: [0-9]", "/home/user1/my run.log", "--password=secret-1", "--api-key", "secret-2").command
    assert redactor.command(asked) == wanted


def test_a_script_of_the_kit_stays_as_it_is() -> None:
    script = (
        'set -u\nPATH=$PATH:/usr/sbin; export LC_ALL=C\nuser=$(id -un) token="$1" pass=$2\nwhile read -r step loss; do :; done'
    )
    command = result(script, "10").command
    redactor = Redactor(hosts=["step"], users=["read"])
    redactor.learn("/home/read/x")
    assert redactor.command(command) == command


def test_no_script_of_the_kit_would_be_changed() -> None:
    """Else a replay would ask another question than the recorded one."""
    scripts = [
        text
        for module in pkgutil.walk_packages(observe.__path__, "diag_kit.observe.")
        for text in vars(importlib.import_module(module.name)).values()
        if isinstance(text, str) and "\n" in text and ("$" in text or "import " in text)
    ]
    assert len(scripts) >= 5
    for text in scripts:
        command = result(text, "10").command
        redactor = Redactor()
        redactor.learn_record(result(text, "10"))
        assert redactor.command(command) == command
    assert len({Redactor().text(text) == text for text in scripts}) == 1


def test_a_secret_in_a_script_that_a_user_wrote_goes() -> None:
    command = result("curl -H 'Authorization: Bearer abcd1234efgh' http://x/").command
    assert "abcd1234efgh" not in Redactor().command(command)


# Records and tables


def test_tables_keep_their_dtypes_and_join_with_the_text() -> None:
    table = pd.DataFrame(
        {
            "host": pd.Series(["gpu", "bigbox", None], dtype="str"),
            "user": pd.Series(["carol", "root", "data"], dtype=object),
            "path": pd.Categorical(["/home/carol/a", "/b", "/home/carol/a"]),
            "wandb_api_key": pd.Series(["shortkey", None, "x2"], dtype=pd.StringDtype("python")),
            "pid": pd.array([1, None, 3], dtype="Int64"),
        }
    )
    redactor = Redactor()
    redactor.learn_record(table)
    clean = redactor.frame(table)
    expected = table.copy()
    expected["host"] = pd.Series(["host1", "host2", None], dtype="str")
    expected["user"] = pd.Series(["user1", "root", "user2"], dtype=object)
    expected["path"] = pd.Categorical(["/home/user1/a", "/b", "/home/user1/a"], categories=["/b", "/home/user1/a"])
    expected["wandb_api_key"] = pd.Series(["secret-1", None, "secret-2"], dtype=pd.StringDtype("python"))
    same_frames(clean.drop(columns="path"), expected.drop(columns="path"))
    assert clean["path"].tolist() == expected["path"].tolist() and str(clean["path"].dtype) == "category"
    assert table["user"].tolist() == ["carol", "root", "data"], "the original stays"


def test_a_fact_that_is_called_a_secret_is_one() -> None:
    redactor = Redactor()
    fact, told, parameters = redactor.record(
        (Fact("WANDB_API_KEY", "zzz", "environ"), Assumption("password", "pw", "told"), {"hub_token": "abcd1234", "lr": "1e-4"})
    )
    assert (fact.value, told.value) == ("secret-1", "secret-2")
    assert parameters == {"hub_token": "secret-3", "lr": "1e-4"}


def test_records_without_names_pass_unchanged() -> None:
    redactor = Redactor(keep=["host"])
    redactor.learn_record(ledger())
    same_entries(redactor.record(ledger()), ledger())
    assert redactor.counts == {}


# The whole file

SECRETS = {
    "host": "zebrabox17",
    "user": "quentin",
    "token": "hf_QqWwEeRrTtYyUuIiOoPp",
    "password": "Xk9%vv!Lq2",
    "key": "k9f8e7d6c5b4a3f2",
    "email": "quentin.q@zebracorp.com",
    "ip": "172.31.45.67",
    "ipv6": "2a02:8108:50bf::3e4",
    "mac": "3c:ec:ef:aa:bb:cc",
    "uuid": "8c5c9b1a-1f2e-3d4c-5b6a-778899aabbcc",
    "serial": "1654923004321",
    "jwt": JWT,
    "private key": "QyNTUxOQAAACBhbGljZQ==",
    "login": "s3cr3tlogin",
}


def seeded() -> Recording:
    """Every secret in every place where text can stand."""
    s = SECRETS
    told = (
        f"{s['user']}@{s['host']} /home/{s['user']}/run.log {s['token']} password='{s['password']}' WANDB_API_KEY={s['key']} "
        f"{s['email']} {s['ip']}:22 {s['ipv6']} {s['mac']} GPU-{s['uuid']} Serial Number: {s['serial']} {s['jwt']} "
        f"https://bob:{s['login']}@git.example.net\n{KEY}\nstep 1 loss 2.3 {s['password']} {s['key']}"
    )
    bare = f"{s['host']} {s['user']} {s['key']} {s['serial']}"
    raw = result('cat -- "$1"', f"/home/{s['user']}/run.log", told, out=told.encode(), stderr=bare.encode(), host=s["host"])
    table = pd.DataFrame({"host": [s["host"]] * 2, "user": [s["user"]] * 2, "text": [told, bare], "serial": [s["serial"]] * 2})
    table["kind"] = pd.Categorical([told, told])
    seen = observation(
        raw,
        summary=told,
        facts=(Fact("log_path", f"/home/{s['user']}/run.log", told), Fact("HF_TOKEN", s["key"], "environ")),
        tables={"jobs": table, "indexed": table.set_index("text")},
        problems=(told,),
    )
    entries = (
        seen,
        Calculation("a", told, told, "", assumptions=(Assumption("x", told, told),), parameters={"p": told}, note=told),
        Hypothesis("c", told, told, Status.SUPPORTED, (Reason(told),), (Reason(told),), {"n": told}, fix=told),
        Verification("c", told, {"rival": told, told: "x"}, told, Status.REFUTED, told, numbers={"n": told}),
        Note(told, NOON),
    )
    other = result("hostname", out=f"{s['host']}\n".encode(), host=s["host"], after_s=4)
    return Recording(entries, told, told, "live", told, (s["host"],), (other,), created=NOON)


def test_no_seeded_secret_is_in_any_member(tmp_path: Path) -> None:
    saved = save(tmp_path / "case.diag.zip", seeded())
    everything = saved.path.read_bytes()
    with zipfile.ZipFile(saved.path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    everything += b"".join(members.values()) + "".join(members).encode()
    found = [what for what, value in SECRETS.items() if value.lower().encode() in everything.lower()]
    assert found == []
    assert set(saved.redactions) == {"secret", "email", "ip", "mac", "gpu_uuid", "serial", "user", "host"}
    opened = open_recording(saved.path)
    assert opened.redactions == saved.redactions
    assert opened.hosts == ("host1",)
    assert b"step 1 loss 2.3" in opened.results[0].stdout


def test_saving_again_keeps_the_counts_and_the_content(tmp_path: Path) -> None:
    first = save(tmp_path / "a.diag.zip", seeded())
    second = save(tmp_path / "b.diag.zip", open_recording(first.path))
    assert second.redactions == first.redactions
    assert first.path.read_bytes() == second.path.read_bytes()


def test_the_same_name_is_the_same_in_raw_bytes_tables_facts_and_commands(tmp_path: Path) -> None:
    opened = open_recording(save(tmp_path / "case.diag.zip", seeded()).path)
    seen: Any = opened.entries[0]
    path = seen.facts[0].value
    assert re.fullmatch(r"/home/user\d+/run\.log", path)
    assert path.encode() in seen.results[0].stdout and path in seen.results[0].command
    assert seen.parsed.tables["jobs"]["user"][0] in path
    assert seen.results[0].host == seen.parsed.tables["jobs"]["host"][0]


def test_eight_megabytes_of_log_take_seconds() -> None:
    line = "[rank0] epoch 0 step 120/35446 loss 2.3145 lr 1.0e-04 tokens/s 51234.2 node carol 12:34:56\n"
    redactor = Redactor(hosts=["bigbox"], users=["carol"])
    text = line * (8 * 2**20 // len(line))
    assert redactor.text(text) == text.replace("carol", "user1")
