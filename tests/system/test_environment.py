"""What commands of the agent see of a person's environment."""

from __future__ import annotations

import pytest

from bullpen.system.environment import DEFAULT_PATH, EDITORS, PAGERS, tool_environment

HOSTILE = """
BASH_ENV ENV LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES GLIBC_TUNABLES GCONV_PATH MALLOC_TRACE
PYTHONSTARTUP PYTHONPATH PYTHONHOME PYTHONWARNINGS PYTHONINSPECT PYTHONBREAKPOINT NODE_OPTIONS NODE_PATH
PERL5OPT PERL5LIB PERL5DB RUBYOPT RUBYLIB LUA_INIT JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH
PROMPT_COMMAND PS1 PS4 IFS CDPATH SHELLOPTS BASHOPTS GLOBIGNORE BASH_FUNC_ls%% ZDOTDIR INPUTRC HISTFILE
GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_DIR GIT_CONFIG_COUNT GIT_CONFIG_GLOBAL GIT_ASKPASS GIT_EXEC_PATH
LESSOPEN LESSCLOSE LESS MANOPT BROWSER SSH_ASKPASS SUDO_ASKPASS RIPGREP_CONFIG_PATH TAR_OPTIONS GREP_OPTIONS
MAKEFLAGS RUSTC_WRAPPER GOFLAGS DOTNET_STARTUP_HOOKS CORECLR_PROFILER ERL_AFLAGS VIMINIT OPENSSL_CONF RSYNC_RSH
BULLPEN_TOKEN BULLPEN_TRUST CRUSH_SERVER_IDLE_TIMEOUT FZF_DEFAULT_OPTS GTK_MODULES PSQLRC PHPRC
"""


@pytest.mark.parametrize("name", HOSTILE.split())
def test_a_variable_that_runs_code_does_not_pass(name: str) -> None:
    """Whoever sent it: nobody asked for what it would run."""
    assert "evil" not in tool_environment({name: "evil"}, ()).values()


def test_a_persons_own_variables_stay() -> None:
    """A command should work as it does in their terminal."""
    own = {"HOME": "/h", "LANG": "C.UTF-8", "MY_FLAG": "1", "GIT_AUTHOR_NAME": "Ada", "PYTHONUNBUFFERED": "1"}
    assert own.items() <= tool_environment(own, ()).items()


def test_secrets_stay_with_the_server() -> None:
    """A variable that a provider's key was expanded from is not for commands."""
    found = tool_environment({"OPENAI_API_KEY": "sk", "OTHER": "x"}, {"OPENAI_API_KEY"})
    assert ("OPENAI_API_KEY" in found, found["OTHER"]) == (False, "x")


def test_no_program_waits_for_a_person() -> None:
    """Pagers print, editors give up, and scripts can tell who runs them."""
    found = tool_environment({"PAGER": "less", "EDITOR": "vim", "TERM": "dumb"}, ())
    assert {found[name] for name in PAGERS} == {"cat"}
    assert {found[name] for name in EDITORS} == {"false"}
    marks = {name: found[name] for name in ("BULLPEN", "AGENT", "AI_AGENT", "TERM")}
    assert marks == {"BULLPEN": "1", "AGENT": "bullpen", "AI_AGENT": "bullpen", "TERM": "xterm-256color"}


def test_the_search_path_does_not_depend_on_the_directory() -> None:
    """A repository must not decide what `ls` is."""
    assert tool_environment({"PATH": ".:/usr/bin::bin:/bin"}, ())["PATH"] == "/usr/bin:/bin"
    assert tool_environment({"PATH": "."}, ())["PATH"] == DEFAULT_PATH
    assert tool_environment({}, ())["PATH"] == DEFAULT_PATH


def test_exported_functions_do_not_pass() -> None:
    """In the old form as well as in the new."""
    found = tool_environment({"x": "() { :;}; evil", "BASH_FUNC_ls()": "() { evil; }"}, ())
    assert "evil" not in "".join(found.values())
