"""Language servers that are known by name: how they are started, for which files, and what they may be trusted with.

Of servers that do the same (`family`) only the first that is installed starts by itself. `runs_project_code` says that
a server runs what it finds in a repository (build scripts, plug-ins, a compiler from its packages) or fetches what is named
there (schemas); such a server does not start by itself before the workspace is trusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

PYTHON = "{python}"
"""Stands in settings for an interpreter that does not come from the workspace."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    command: str
    args: tuple[str, ...] = ()
    filetypes: tuple[str, ...]
    root_markers: tuple[str, ...]
    family: str
    install: str
    """How a person gets it."""
    init_options: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    runs_project_code: bool = False
    careful_options: Mapping[str, Any] = {}
    """Settings on top while the workspace is not trusted."""
    is_generic: bool = False
    """Whether the program is there for other reasons too, so that it only starts when somebody configures it."""


_PYTHON_ROOT = (
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "Pipfile",
    "pyrightconfig.json",
    ".git",
)
_NODE_ROOT = ("package.json", "tsconfig.json", "jsconfig.json", ".git")
_SCRIPTS = ("javascript", "javascriptreact", "typescript", "typescriptreact")
_OWN_PYTHON = {"python": {"pythonPath": PYTHON}}
"""Without it these run `.venv/bin/python` of the repository to learn its paths."""


def _known(
    name: str,
    argv: str,
    filetypes: str,
    markers: tuple[str, ...],
    install: str,
    **more: Any,
) -> Known:
    command, *args = argv.split()
    kinds = tuple(filetypes.split())
    return Known(
        name=name,
        command=command,
        args=tuple(args),
        filetypes=kinds,
        root_markers=markers,
        install=install,
        **{"family": kinds[0], **more},
    )


KNOWN: tuple[Known, ...] = (
    _known(
        "basedpyright",
        "basedpyright-langserver --stdio",
        "python",
        _PYTHON_ROOT,
        "pip install basedpyright",
        # By itself it wants more than most projects do; what a project configures counts all the same.
        options={"basedpyright": {"analysis": {"typeCheckingMode": "standard"}}},
        careful_options=_OWN_PYTHON,
    ),
    _known(
        "pyright",
        "pyright-langserver --stdio",
        "python",
        _PYTHON_ROOT,
        "pip install pyright",
        careful_options=_OWN_PYTHON,
    ),
    _known("pylsp", "pylsp", "python", _PYTHON_ROOT, "pip install python-lsp-server", runs_project_code=True),
    _known(
        "jedi-language-server",
        "jedi-language-server",
        "python",
        _PYTHON_ROOT,
        "pip install jedi-language-server",
        runs_project_code=True,
    ),
    _known(
        "ruff",
        "ruff server",
        "python",
        (*_PYTHON_ROOT, "ruff.toml", ".ruff.toml"),
        "pip install ruff",
        family="python-lint",
        is_generic=True,
    ),
    _known(
        "gopls",
        "gopls",
        "go gomod gowork",
        ("go.mod", "go.work"),
        "go install golang.org/x/tools/gopls@latest",
        # Without version control, whose settings lie in the repository, and without fetching another compiler.
        careful_options={"gopls": {"buildFlags": ["-buildvcs=false"], "env": {"GOTOOLCHAIN": "local"}}},
    ),
    _known(
        "rust-analyzer",
        "rust-analyzer",
        "rust",
        ("Cargo.toml", "rust-project.json"),
        "rustup component add rust-analyzer",
        runs_project_code=True,
    ),
    _known(
        "typescript-language-server",
        "typescript-language-server --stdio",
        " ".join(_SCRIPTS),
        _NODE_ROOT,
        "npm install -g typescript-language-server typescript",
        runs_project_code=True,
    ),
    _known(
        "vtsls",
        "vtsls --stdio",
        " ".join(_SCRIPTS),
        _NODE_ROOT,
        "npm install -g @vtsls/language-server",
        family="javascript",
        runs_project_code=True,
    ),
    _known(
        "eslint",
        "vscode-eslint-language-server --stdio",
        " ".join(_SCRIPTS),
        (".eslintrc*", "eslint.config.*"),
        "npm install -g vscode-langservers-extracted",
        family="javascript-lint",
        runs_project_code=True,
    ),
    _known(
        "biome",
        "biome lsp-proxy",
        " ".join(_SCRIPTS),
        ("biome.json", "biome.jsonc"),
        "npm install -g @biomejs/biome",
        family="biome",
    ),
    _known(
        "svelteserver",
        "svelteserver --stdio",
        "svelte",
        ("svelte.config.*", "package.json"),
        "npm install -g svelte-language-server",
        runs_project_code=True,
    ),
    _known(
        "vue-language-server",
        "vue-language-server --stdio",
        "vue",
        ("package.json",),
        "npm install -g @vue/language-server",
        runs_project_code=True,
    ),
    _known(
        "html",
        "vscode-html-language-server --stdio",
        "html",
        ("package.json", ".git"),
        "npm install -g vscode-langservers-extracted",
    ),
    _known(
        "css",
        "vscode-css-language-server --stdio",
        "css scss less",
        ("package.json", ".git"),
        "npm install -g vscode-langservers-extracted",
    ),
    _known(
        "json",
        "vscode-json-language-server --stdio",
        "json jsonc",
        ("package.json", ".git"),
        "npm install -g vscode-langservers-extracted",
        runs_project_code=True,
    ),
    _known(
        "yaml",
        "yaml-language-server --stdio",
        "yaml",
        (".git",),
        "npm install -g yaml-language-server",
        runs_project_code=True,
    ),
    _known(
        "taplo",
        "taplo lsp stdio",
        "toml",
        ("*.toml",),
        "cargo install taplo-cli --features lsp",
        runs_project_code=True,
    ),
    _known(
        "bash-language-server",
        "bash-language-server start",
        "shellscript",
        (".git",),
        "npm install -g bash-language-server",
    ),
    _known(
        "clangd",
        "clangd",
        "c cpp objective-c objective-cpp cuda",
        (
            "compile_commands.json",
            "compile_flags.txt",
            ".clangd",
            "CMakeLists.txt",
            "Makefile",
            "configure.ac",
            ".git",
        ),
        "apt install clangd",
    ),
    _known(
        "ccls",
        "ccls",
        "c cpp objective-c objective-cpp",
        ("compile_commands.json", ".ccls"),
        "apt install ccls",
        runs_project_code=True,
    ),
    _known(
        "cmake-language-server",
        "cmake-language-server",
        "cmake",
        ("CMakeLists.txt",),
        "pip install cmake-language-server",
        runs_project_code=True,
    ),
    _known("zls", "zls", "zig", ("build.zig", "zls.json"), "see the releases of zls", runs_project_code=True),
    _known(
        "jdtls",
        "jdtls",
        "java",
        ("pom.xml", "build.gradle", "build.gradle.kts", "gradlew", "mvnw"),
        "see the releases of Eclipse JDT LS",
        runs_project_code=True,
    ),
    _known(
        "kotlin-language-server",
        "kotlin-language-server",
        "kotlin",
        ("build.gradle", "build.gradle.kts", "pom.xml"),
        "see the releases of kotlin-language-server",
        runs_project_code=True,
    ),
    _known(
        "metals",
        "metals",
        "scala",
        ("build.sbt", "build.sc", "pom.xml"),
        "coursier install metals",
        runs_project_code=True,
    ),
    _known(
        "omnisharp",
        "OmniSharp -lsp",
        "csharp",
        ("*.sln", "*.csproj"),
        "see the releases of OmniSharp",
        runs_project_code=True,
    ),
    _known(
        "csharp-ls",
        "csharp-ls",
        "csharp",
        ("*.sln", "*.csproj"),
        "dotnet tool install -g csharp-ls",
        runs_project_code=True,
    ),
    _known(
        "sourcekit-lsp",
        "sourcekit-lsp",
        "swift",
        ("Package.swift",),
        "comes with Swift",
        runs_project_code=True,
    ),
    _known(
        "solargraph",
        "solargraph stdio",
        "ruby",
        ("Gemfile", ".solargraph.yml"),
        "gem install solargraph",
        runs_project_code=True,
    ),
    _known("ruby-lsp", "ruby-lsp", "ruby", ("Gemfile",), "gem install ruby-lsp", runs_project_code=True),
    _known(
        "intelephense",
        "intelephense --stdio",
        "php",
        ("composer.json", ".git"),
        "npm install -g intelephense",
    ),
    _known(
        "phpactor",
        "phpactor language-server",
        "php",
        ("composer.json", ".phpactor.json"),
        "see the manual of phpactor",
        runs_project_code=True,
    ),
    _known(
        "lua-language-server",
        "lua-language-server",
        "lua",
        (".luarc.json", ".luarc.jsonc", "stylua.toml", ".git"),
        "see the releases of lua-language-server",
        runs_project_code=True,
    ),
    _known(
        "elixir-ls",
        "elixir-ls",
        "elixir",
        ("mix.exs",),
        "see the releases of ElixirLS",
        runs_project_code=True,
    ),
    _known(
        "erlang_ls",
        "erlang_ls",
        "erlang",
        ("rebar.config", "erlang.mk"),
        "see the releases of erlang_ls",
        runs_project_code=True,
    ),
    _known(
        "haskell-language-server",
        "haskell-language-server-wrapper --lsp",
        "haskell",
        ("*.cabal", "stack.yaml", "cabal.project", "package.yaml"),
        "ghcup install hls",
        runs_project_code=True,
    ),
    _known(
        "ocamllsp",
        "ocamllsp",
        "ocaml",
        ("dune-project", "dune-workspace", "*.opam"),
        "opam install ocaml-lsp-server",
        runs_project_code=True,
    ),
    _known(
        "clojure-lsp",
        "clojure-lsp",
        "clojure",
        ("deps.edn", "project.clj", "shadow-cljs.edn"),
        "see the releases of clojure-lsp",
        runs_project_code=True,
    ),
    _known(
        "dartls",
        "dart language-server --protocol=lsp",
        "dart",
        ("pubspec.yaml",),
        "comes with Dart",
        runs_project_code=True,
    ),
    _known(
        "nil",
        "nil",
        "nix",
        ("flake.nix", "default.nix", "shell.nix"),
        "nix profile install nixpkgs#nil",
        runs_project_code=True,
    ),
    _known(
        "terraform-ls",
        "terraform-ls serve",
        "terraform",
        (".terraform", "*.tf"),
        "see the releases of terraform-ls",
        runs_project_code=True,
    ),
    _known(
        "dockerfile",
        "docker-langserver --stdio",
        "dockerfile",
        ("Dockerfile", "Containerfile"),
        "npm install -g dockerfile-language-server-nodejs",
    ),
    _known(
        "sqls",
        "sqls",
        "sql",
        (".sqls.yml",),
        "go install github.com/sqls-server/sqls@latest",
        runs_project_code=True,
    ),
    _known(
        "texlab",
        "texlab",
        "latex bibtex",
        (".latexmkrc", "*.tex"),
        "cargo install texlab",
        runs_project_code=True,
    ),
    _known("marksman", "marksman server", "markdown", (".marksman.toml",), "see the releases of marksman"),
    _known("protols", "protols", "proto", ("*.proto", "buf.yaml"), "cargo install protols"),
    _known(
        "graphql",
        "graphql-lsp server -m stream",
        "graphql",
        (".graphqlrc*", "graphql.config.*"),
        "npm install -g graphql-language-service-cli",
        runs_project_code=True,
    ),
    _known("gleam", "gleam lsp", "gleam", ("gleam.toml",), "comes with Gleam", runs_project_code=True),
    _known(
        "nimlangserver",
        "nimlangserver",
        "nim",
        ("*.nimble",),
        "nimble install nimlangserver",
        runs_project_code=True,
    ),
    _known(
        "r-languageserver",
        "R --no-echo -e languageserver::run()",
        "r",
        ("DESCRIPTION", ".Rproj"),
        "R -e 'install.packages(\"languageserver\")'",
        runs_project_code=True,
        is_generic=True,
    ),
)

_LANGUAGES = """
    python py pyi pyw|go go|gomod go.mod|gowork go.work|rust rs|javascript js mjs cjs|javascriptreact jsx
    typescript ts mts cts|typescriptreact tsx|svelte svelte|vue vue|html html htm|css css|scss scss|less less
    json json|jsonc jsonc|yaml yaml yml|toml toml|shellscript sh bash zsh|c c h|cpp cc cpp cxx hpp hh hxx ipp
    objective-c m|objective-cpp mm|cuda cu cuh|cmake cmake CMakeLists.txt|zig zig zon|java java|kotlin kt kts
    scala scala sbt sc|csharp cs|swift swift|ruby rb rake gemspec Gemfile Rakefile|php php|lua lua|elixir ex exs
    erlang erl hrl|haskell hs lhs|ocaml ml mli|clojure clj cljs cljc edn|dart dart|nix nix|terraform tf tfvars
    dockerfile Dockerfile Containerfile|sql sql|latex tex|bibtex bib|markdown md markdown|proto proto
    graphql graphql gql|gleam gleam|nim nim nims|r r R"""


def _language_table() -> dict[str, str]:
    table: dict[str, str] = {}
    for line in _LANGUAGES.strip().splitlines():
        for entry in line.strip().split("|"):
            language, *endings = entry.split()
            table |= dict.fromkeys(endings, language)
    return table


LANGUAGE_OF: Mapping[str, str] = MappingProxyType(_language_table())
"""The protocol's name of a language, by a file's ending or its whole name."""

_MARKERS = frozenset(marker for each in KNOWN for marker in each.root_markers if "*" not in marker)


def language_of(name: str) -> str:
    """The language of a file by its name; empty when it is none that we know."""
    return LANGUAGE_OF.get(name) or LANGUAGE_OF.get(ending_of(name), "")


def ending_of(name: str) -> str:
    stem, dot, ending = name.rpartition(".")
    return ending if dot and stem else ""


def is_source(name: str) -> bool:
    """Whether a server may want to know about a file of this name."""
    return bool(language_of(name)) or name in _MARKERS


def starts(each: Known) -> str:
    """When a server starts, for people to read."""
    if each.is_generic:
        return "when it is configured"
    if each.runs_project_code:
        return "when the project is trusted, or it is configured"
    return "by itself"


def table() -> str:
    """The catalogue for docs/lsp.md."""
    rows = [
        f"| `{each.name}` | {', '.join(each.filetypes)} | {starts(each)} | `{each.install}` |"
        for each in KNOWN
    ]
    return "\n".join(["| server | files | starts | to get it |", "|---|---|---|---|", *rows])


def find(name: str, command: str) -> Known | None:
    """The known server that an entry of the config means, by its name or its command."""
    program = command.rsplit("/", 1)[-1]
    by_name = next((each for each in KNOWN if each.name == name), None)
    if by_name is not None and program in ("", by_name.command):
        return by_name
    return next((each for each in KNOWN if program and each.command == program), None)
