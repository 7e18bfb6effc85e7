"""The environment that commands of the agent see.

What a person has set for themselves stays: PATH, HOME, LANG, their own variables. What makes programs run
code or read settings that nobody asked for does not: a variable is a way to turn a harmless-looking command
into another one, and neither a repository nor a model nor a client may use it. Secrets that a provider's key
was made from stay with the server.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from bullpen.system.processes import shell


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


DROPPED_PREFIXES = (
    "BULLPEN_",
    "CRUSH_",
    # The loader, the C library and the runtimes.
    "LD_",
    "DYLD_",
    "GLIBC_",
    "MALLOC_",
    "PYTHON",
    "NODE_",
    "PERL",
    "RUBY",
    "LUA_",
    "PHP",
    "COMPLUS_",
    "CORECLR_",
    "DOTNET_STARTUP",
    "ERL_",
    "ELIXIR_ERL",
    "R_PROFILE",
    "R_ENVIRON",
    "JULIA_LOAD",
    # Shells, and programs that read commands from their settings.
    "BASH_",
    "GIT_",
    "LESS",
    "FZF_",
    "OPENSSL_",
)

KEPT = _names(
    """
    GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE
    NODE_ENV NODE_EXTRA_CA_CERTS
    PYTHONUNBUFFERED PYTHONIOENCODING PYTHONUTF8 PYTHONDONTWRITEBYTECODE PYTHONHASHSEED
    """
)
"""Members of those families that only say something and run nothing."""

DROPPED = _names(
    """
    ENV SHELLOPTS BASHOPTS PROMPT_COMMAND PS0 PS1 PS2 PS3 PS4 IFS CDPATH GLOBIGNORE EXECIGNORE FPATH ZDOTDIR
    HISTFILE INPUTRC FCEDIT POSIXLY_CORRECT OLDPWD PWD SHLVL _
    GCONV_PATH GETCONF_DIR HOSTALIASES LOCALDOMAIN LOCPATH NLSPATH RESOLV_HOST_CONF RES_OPTIONS TZDIR NIS_PATH
    JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH GEM_PATH BUNDLE_GEMFILE BUNDLE_PATH TCLLIBPATH
    GOFLAGS GOENV GOROOT RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER CARGO_BUILD_RUSTC_WRAPPER RUSTDOC
    MAKEFLAGS MFLAGS GNUMAKEFLAGS MAKEFILES GCC_EXEC_PREFIX COMPILER_PATH
    TAR_OPTIONS GREP_OPTIONS ZIPOPT UNZIP RSYNC_RSH RSYNC_CONNECT_PROG CVS_RSH SVN_SSH RIPGREP_CONFIG_PATH
    WGETRC CURL_HOME SSLKEYLOGFILE SSH_ASKPASS SUDO_ASKPASS SUDO_EDITOR BROWSER
    MANOPT MANROFFOPT MORE MOST_SWITCHES BAT_CONFIG_PATH BAT_OPTS VIMINIT EXINIT GVIMINIT MYVIMRC EMACSLOADPATH
    PSQLRC GTK_MODULES GTK_PATH GIO_EXTRA_MODULES QT_PLUGIN_PATH
    npm_config_script_shell npm_config_shell npm_config_node_options npm_config_globalconfig
    npm_config_userconfig
    """
)

PAGERS = (
    "PAGER",
    "GIT_PAGER",
    "MANPAGER",
    "GH_PAGER",
    "AWS_PAGER",
    "BAT_PAGER",
    "DELTA_PAGER",
    "SYSTEMD_PAGER",
    "PSQL_PAGER",
)
EDITORS = (
    "EDITOR",
    "VISUAL",
    "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR",
    "HGEDITOR",
    "SVN_EDITOR",
    "KUBE_EDITOR",
    "SYSTEMD_EDITOR",
    "PSQL_EDITOR",
)

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def tool_environment(base: Mapping[str, str], secrets: Collection[str]) -> dict[str, str]:
    """The environment for commands, made from a person's own.

    `secrets` are the names of variables that hold provider keys. Entries of PATH that depend on the
    directory a command runs in are left out: a repository must not decide what `ls` is.
    """
    hidden = frozenset(secrets)
    kept = {name: value for name, value in base.items() if name not in hidden and _may_pass(name, value)}
    entries = (entry for entry in kept.get("PATH", "").split(":") if entry.startswith("/"))
    return {
        **kept,
        "PATH": ":".join(entries) or DEFAULT_PATH,
        "SHELL": shell(),
        "TERM": "xterm-256color",
        "GIT_TERMINAL_PROMPT": "0",
        **dict.fromkeys(PAGERS, "cat"),
        **dict.fromkeys(EDITORS, "false"),
        "BULLPEN": "1",
        "AGENT": "bullpen",
        "AI_AGENT": "bullpen",
    }


def _may_pass(name: str, value: str) -> bool:
    """Exported shell functions have a name or a value of their own form, and never pass."""
    if not _NAME.fullmatch(name) or "\0" in value or value.startswith("() {"):
        return False
    return name in KEPT or not (name in DROPPED or name.startswith(DROPPED_PREFIXES))
