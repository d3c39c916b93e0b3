"""Words that redaction must know: accounts that are nobody's name, names that are common words, ends of addresses."""

from __future__ import annotations

_SYSTEM_USERS_TEXT = (
    "root nobody daemon bin sys sync games man lp mail news proxy www-data backup list irc gnats sshd messagebus "
    "syslog systemd systemd-network systemd-resolve systemd-timesync _apt ntp chrony polkitd dbus rpc rpcuser "
    "munge slurm docker nvidia-persistenced ubuntu debian centos fedora admin ec2-user azureuser opc user jovyan "
    "runner shared linuxbrew public default guest "
)
SYSTEM_USERS = frozenset(_SYSTEM_USERS_TEXT.split())
_NEUTRAL_HOSTS_TEXT = "localhost local localdomain files recorded none unknown null (none) "
NEUTRAL_HOSTS = frozenset(_NEUTRAL_HOSTS_TEXT.split())

# Names that are also words of logs, tools or code: replaced only where a host or user is clearly meant.
_COMMON_WORDS_TEXT = (
    "and any are bash batch box cat cluster code command compute count cpu cuda data date default dev device disk "
    "docker done echo epoch eval file files for from gpu gpus grep group head home host hosts import info input "
    "iostat job jobs kernel lab learn len line linux list load local log login logs loss main master mem memory "
    "metric metrics ml mnt model models name nccl net node nodes not nvidia old open out output path pid power "
    "print proc process prod project ps python rank ranks rate read remote root run runs sample samples save "
    "script server shell sleep source stat state step steps storage stream system table tail task team temp test "
    "tests text the this time tmp token tool top torch torchrun total train trainer training true type user users "
    "util val value version wait warn warning work worker workers workstation world write a100 h100 h200 l40s "
    "v100 b200 "
)
COMMON_WORDS = frozenset(_COMMON_WORDS_TEXT.split())


_TOP_DOMAINS_TEXT = (
    "com org net edu gov mil int info biz dev cloud tech online site app xyz science academy email systems "
    "network company solutions internal local lan corp home intranet test invalid localdomain "
)
TOP_DOMAINS = frozenset(_TOP_DOMAINS_TEXT.split())
