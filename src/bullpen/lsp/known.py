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


_TABLE = """
    basedpyright | basedpyright-langserver --stdio | python | pyproject.toml setup.py setup.cfg requirements.txt Pipfile pyrightconfig.json .git | - | pip install basedpyright
    pyright | pyright-langserver --stdio | python | pyproject.toml setup.py setup.cfg requirements.txt Pipfile pyrightconfig.json .git | - | pip install pyright
    pylsp | pylsp | python | pyproject.toml setup.py setup.cfg requirements.txt Pipfile pyrightconfig.json .git | runs | pip install python-lsp-server
    jedi-language-server | jedi-language-server | python | pyproject.toml setup.py setup.cfg requirements.txt Pipfile pyrightconfig.json .git | runs | pip install jedi-language-server
    ruff | ruff server | python | pyproject.toml setup.py setup.cfg requirements.txt Pipfile pyrightconfig.json .git ruff.toml .ruff.toml | generic family=python-lint | pip install ruff
    gopls | gopls | go gomod gowork | go.mod go.work | - | go install golang.org/x/tools/gopls@latest
    rust-analyzer | rust-analyzer | rust | Cargo.toml rust-project.json | runs | rustup component add rust-analyzer
    typescript-language-server | typescript-language-server --stdio | javascript javascriptreact typescript typescriptreact | package.json tsconfig.json jsconfig.json .git | runs | npm install -g typescript-language-server typescript
    vtsls | vtsls --stdio | javascript javascriptreact typescript typescriptreact | package.json tsconfig.json jsconfig.json .git | runs | npm install -g @vtsls/language-server
    eslint | vscode-eslint-language-server --stdio | javascript javascriptreact typescript typescriptreact | .eslintrc* eslint.config.* | runs family=javascript-lint | npm install -g vscode-langservers-extracted
    biome | biome lsp-proxy | javascript javascriptreact typescript typescriptreact | biome.json biome.jsonc | family=biome | npm install -g @biomejs/biome
    svelteserver | svelteserver --stdio | svelte | svelte.config.* package.json | runs | npm install -g svelte-language-server
    vue-language-server | vue-language-server --stdio | vue | package.json | runs | npm install -g @vue/language-server
    html | vscode-html-language-server --stdio | html | package.json .git | - | npm install -g vscode-langservers-extracted
    css | vscode-css-language-server --stdio | css scss less | package.json .git | - | npm install -g vscode-langservers-extracted
    json | vscode-json-language-server --stdio | json jsonc | package.json .git | runs | npm install -g vscode-langservers-extracted
    yaml | yaml-language-server --stdio | yaml | .git | runs | npm install -g yaml-language-server
    taplo | taplo lsp stdio | toml | *.toml | runs | cargo install taplo-cli --features lsp
    bash-language-server | bash-language-server start | shellscript | .git | - | npm install -g bash-language-server
    clangd | clangd | c cpp objective-c objective-cpp cuda | compile_commands.json compile_flags.txt .clangd CMakeLists.txt Makefile configure.ac .git | - | apt install clangd
    ccls | ccls | c cpp objective-c objective-cpp | compile_commands.json .ccls | runs | apt install ccls
    cmake-language-server | cmake-language-server | cmake | CMakeLists.txt | runs | pip install cmake-language-server
    zls | zls | zig | build.zig zls.json | runs | see the releases of zls
    jdtls | jdtls | java | pom.xml build.gradle build.gradle.kts gradlew mvnw | runs | see the releases of Eclipse JDT LS
    kotlin-language-server | kotlin-language-server | kotlin | build.gradle build.gradle.kts pom.xml | runs | see the releases of kotlin-language-server
    metals | metals | scala | build.sbt build.sc pom.xml | runs | coursier install metals
    omnisharp | OmniSharp -lsp | csharp | *.sln *.csproj | runs | see the releases of OmniSharp
    csharp-ls | csharp-ls | csharp | *.sln *.csproj | runs | dotnet tool install -g csharp-ls
    sourcekit-lsp | sourcekit-lsp | swift | Package.swift | runs | comes with Swift
    solargraph | solargraph stdio | ruby | Gemfile .solargraph.yml | runs | gem install solargraph
    ruby-lsp | ruby-lsp | ruby | Gemfile | runs | gem install ruby-lsp
    intelephense | intelephense --stdio | php | composer.json .git | - | npm install -g intelephense
    phpactor | phpactor language-server | php | composer.json .phpactor.json | runs | see the manual of phpactor
    lua-language-server | lua-language-server | lua | .luarc.json .luarc.jsonc stylua.toml .git | runs | see the releases of lua-language-server
    elixir-ls | elixir-ls | elixir | mix.exs | runs | see the releases of ElixirLS
    erlang_ls | erlang_ls | erlang | rebar.config erlang.mk | runs | see the releases of erlang_ls
    haskell-language-server | haskell-language-server-wrapper --lsp | haskell | *.cabal stack.yaml cabal.project package.yaml | runs | ghcup install hls
    ocamllsp | ocamllsp | ocaml | dune-project dune-workspace *.opam | runs | opam install ocaml-lsp-server
    clojure-lsp | clojure-lsp | clojure | deps.edn project.clj shadow-cljs.edn | runs | see the releases of clojure-lsp
    dartls | dart language-server --protocol=lsp | dart | pubspec.yaml | runs | comes with Dart
    nil | nil | nix | flake.nix default.nix shell.nix | runs | nix profile install nixpkgs#nil
    terraform-ls | terraform-ls serve | terraform | .terraform *.tf | runs | see the releases of terraform-ls
    dockerfile | docker-langserver --stdio | dockerfile | Dockerfile Containerfile | - | npm install -g dockerfile-language-server-nodejs
    sqls | sqls | sql | .sqls.yml | runs | go install github.com/sqls-server/sqls@latest
    texlab | texlab | latex bibtex | .latexmkrc *.tex | runs | cargo install texlab
    marksman | marksman server | markdown | .marksman.toml | - | see the releases of marksman
    protols | protols | proto | *.proto buf.yaml | - | cargo install protols
    graphql | graphql-lsp server -m stream | graphql | .graphqlrc* graphql.config.* | runs | npm install -g graphql-language-service-cli
    gleam | gleam lsp | gleam | gleam.toml | runs | comes with Gleam
    nimlangserver | nimlangserver | nim | *.nimble | runs | nimble install nimlangserver
    r-languageserver | R --no-echo -e languageserver::run() | r | DESCRIPTION .Rproj | runs generic | R -e 'install.packages("languageserver")'
"""
"""Name, command, languages, marks in the root, how it behaves, how a person gets it."""

_PYTHON = {"python": {"pythonPath": PYTHON}}
"""Without it these run `.venv/bin/python` of the repository to learn its paths."""

_MORE: Mapping[str, dict[str, Any]] = {
    "basedpyright": {
        # By itself it wants more than most projects do; what a project configures counts all the same.
        "options": {"basedpyright": {"analysis": {"typeCheckingMode": "standard"}}},
        "careful_options": _PYTHON,
    },
    "pyright": {"careful_options": _PYTHON},
    "gopls": {
        # Without version control, whose settings lie in the repository, and without fetching another compiler.
        "careful_options": {"gopls": {"buildFlags": ["-buildvcs=false"], "env": {"GOTOOLCHAIN": "local"}}}
    },
}


def _known(row: str) -> Known:
    name, argv, filetypes, markers, flags, install = (cell.strip() for cell in row.split("|"))
    command, *args = argv.split()
    languages = tuple(filetypes.split())
    families = [flag.removeprefix("family=") for flag in flags.split() if flag.startswith("family=")]
    return Known(
        name=name,
        command=command,
        args=tuple(args),
        filetypes=languages,
        root_markers=tuple(markers.split()),
        family=families[0] if families else languages[0],
        install=install,
        runs_project_code="runs" in flags.split(),
        is_generic="generic" in flags.split(),
        **_MORE.get(name, {}),
    )


KNOWN: tuple[Known, ...] = tuple(_known(row) for row in _TABLE.strip().splitlines())

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
