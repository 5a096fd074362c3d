"""Reads settings: a YAML file, then overrides, then the override profile. Errors name the line."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from absa.backends.keys import keys_of_environment
from absa.nodes.assets import data_dir
from absa.schemas.json_text import parse_json
from absa.schemas.secrets import HIDDEN, hide_keys, may_be_key
from absa.schemas.settings import Settings
from absa.small_files import read_small

Key = tuple[str | int, ...]

PROFILES_FILE = "debate_override_thresholds.json"

ALIASES: Mapping[Key, Key] = {
    ("pipeline", "debate", "enabled"): ("pipeline", "enable_debate"),
    ("aux_hf_enabled",): ("aux_hf", "enabled"),
    ("aux_hf_checkpoint",): ("aux_hf", "checkpoint"),
}
"""Aliases: keys of the source documents (docs/reference/names.md) and their settings."""

_SECRET = re.compile(r"(^|_)(api_?key|key|token|secret|password|passwd|authorization)$")

_EXPECTED = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "tuple_type": "a list",
    "model_type": "a mapping of keys",
    "mapping_type": "a mapping of keys",
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than_equal": "a number of at most {le:g}",
    "literal_error": "{expected}",
}
"""The expected value in words, by pydantic's error type."""


_NO_SECRETS = "secrets do not belong in settings; set the environment variable OPENAI_API_KEY"


class SettingsError(ValueError):
    """Invalid settings. A usage error that must not be retried.

    `problems` has one line per problem. The message consists of these lines.
    """

    def __init__(self, *problems: str) -> None:
        """Take the problems, one line each. API keys in them are hidden."""
        self.problems = tuple(map(_without_keys, problems))
        super().__init__("\n".join(self.problems))


class _Origin(NamedTuple):
    """Where a value was given: a line of a file, or an option."""

    source: str
    line: int = 0

    @property
    def is_option(self) -> bool:
        return self.source.startswith("--set")

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source


class _Loader(yaml.SafeLoader):
    """YAML without aliases, which settings do not need and which allow exploding files."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            problem = "aliases (*name) are not supported; write the value out"
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, problem, mark)
        return super().compose_node(parent, index)


# YAML 1.1 reads 1e-3 as text because it has no dot.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def load_settings(
    path: str | Path | None = None, overrides: Mapping[str, object] | None = None
) -> Settings:
    """Read settings from a YAML file and apply overrides.

    Args:
        path: A YAML file, or the name of a shipped one (`configs/default.yaml`, `default`).
            None takes the defaults.
        overrides: Values by dotted key, such as `{"pipeline.enable_debate": False}`. A mapping
            is merged into its section. Other values replace those of the file.

    Returns:
        The effective settings. Missing values of `pipeline.debate_override` come from the profile
        `pipeline.override_profile`.

    Raises:
        SettingsError: With all problems found, each with its file and line or its option.
    """
    tree = _Tree()
    if path is not None:
        tree.add_file(_find(Path(path)))
        tree.resolve_aliases()
    for key, value in (overrides or {}).items():
        tree.add_override(key, value)
    tree.resolve_aliases()
    tree.add_profile()
    return tree.validate()


def unknown_key(dotted_key: str) -> str | None:
    """The error of a dotted key that is not a setting, with the nearest key; None for a setting."""
    key = tuple(dotted_key.split("."))
    if key in ALIASES:
        return None
    for end in range(1, len(key) + 1):
        section = _annotation(key[: end - 1])
        if not _is_model(section):
            return None
        if key[end - 1] not in section.model_fields:
            return f"unknown key '{dotted_key}' ({_hint(key[:end])})"
    return None


def parse_override(text: str) -> tuple[str, object]:
    """Read `key=value` from a command line; the value is YAML.

    Raises:
        SettingsError: If there is no key, no `=`, or the value is not YAML.
    """
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        # Only the part before "=" is shown, because the rest can be a secret.
        raise SettingsError(
            f"--set {key}: expected key=value, for example pipeline.enable_debate=false"
        )
    origin = _Origin(f"--set {key}")
    loader, node = _compose(value, origin)
    return key, None if node is None else _construct(loader, node, origin)


class _Tree:
    """A settings tree under construction, with the origin of each key."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[Key, _Origin] = {}
        self.problems: list[tuple[_Origin, str]] = []

    def add_file(self, path: Path) -> None:
        origin = _Origin(str(path))
        loader, node = _compose(_read_text(path), origin)
        if node is None or node.tag == "tag:yaml.org,2002:null":
            return
        if not isinstance(node, yaml.MappingNode):
            sections = " and ".join(f"'{name}:'" for name in Settings.model_fields)
            raise SettingsError(
                f"{_at(origin, node)}: the top level must be a mapping of keys; "
                f"write sections such as {sections}"
            )
        self._add_node(loader, node, (), origin)

    def add_override(self, key: str, value: object) -> None:
        origin = _Origin(f"--set {key}")
        parts = tuple(key.split("."))
        if not all(parts):
            self.problems.append((origin, "expected a dotted key such as pipeline.enable_debate"))
            return
        self._add_value(parts, value, origin)

    def resolve_aliases(self) -> None:
        """Move a new value under an alias to its key, over the value of an earlier source."""
        for alias, key in ALIASES.items():
            origin, given_at = self.origins.pop(alias, None), self.origins.get(key)
            if origin is None:
                continue
            section, target = (self._section(at[:-1], origin) or {} for at in (alias, key))
            value, other = section.pop(str(alias[-1]), None), target.get(str(key[-1]))
            if given_at and given_at.is_option == origin.is_option and other != value:
                why = f"is {_show(value)}, but '{_dotted(key)}' ({given_at}) is {_show(other)}"
                what = f"'{_dotted(alias)}' {why}; both names mean one setting: keep one"
                self.problems.append((origin, what))
            self._add_value(key, value, origin)

    def add_profile(self) -> None:
        """Fill missing values of `pipeline.debate_override` from the chosen profile."""
        pipeline = self.values.get("pipeline", {})
        name = pipeline.get("override_profile", "t0") if isinstance(pipeline, dict) else None
        if not isinstance(name, str):
            return  # validate() reports the problem
        file = data_dir("configs") / PROFILES_FILE
        origin = _Origin(f"{file} (profile {name})")
        profile = _read_profiles(file).get(name, {})
        self._add_value(("pipeline", "debate_override"), profile, origin, replace=False)

    def validate(self) -> Settings:
        settings = None
        try:
            settings = Settings.model_validate(self.values)
            self.problems += self._keys_in(settings)
        except ValidationError as error:
            self.problems += [self._explain(detail) for detail in error.errors()]
        if settings is None or self.problems:
            lines = (f"{origin}: {text}" for origin, text in sorted(self.problems))
            raise SettingsError(*dict.fromkeys(lines))
        return settings

    def _keys_in(self, settings: Settings) -> list[tuple[_Origin, str]]:
        """A problem for each setting that contains an API key of the environment."""
        keys = keys_of_environment(settings.backend)
        return [
            (self._origin(at), f"{_dotted(at)}: contains the value of {name}; {_NO_SECRETS}")
            for at, text in _texts(settings.model_dump(mode="json"))
            for name, key in keys.items()
            if key in text
        ]

    def _add_node(self, loader: _Loader, node: yaml.MappingNode, at: Key, origin: _Origin) -> None:
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            here = _at(origin, key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append((here, f"a key in '{_dotted(at)}' is not plain text"))
                continue
            # The raw key: YAML 1.1 would turn a persona called "on" into true.
            key = (*at, key_node.value)
            if key_node.value in first:
                text = f"(first given on line {first[key_node.value]})"
                self.problems.append((here, f"duplicate key '{_dotted(key)}' {text}"))
                continue
            first[key_node.value] = here.line
            if isinstance(value_node, yaml.MappingNode):
                self._add_value(key, {}, here)
                self._add_node(loader, value_node, key, origin)
                continue
            self._add_value(key, _construct(loader, value_node, origin), here)
            if isinstance(value_node, yaml.SequenceNode):
                for index, item in enumerate(value_node.value):
                    self.origins[*key, index] = _at(origin, item)

    def _add_value(self, at: Key, value: object, origin: _Origin, *, replace: bool = True) -> None:
        if value is None and _is_section(at):
            value = {}  # a section with all of its keys commented out
        if isinstance(value, Mapping):
            if self._section(at, origin) is not None:
                for key, item in value.items():
                    self._add_value((*at, str(key)), item, origin, replace=replace)
            return
        parent = self._section(at[:-1], origin)
        if parent is None or (at[-1] in parent and not replace):
            return
        parent[str(at[-1])] = value
        self.origins = {k: v for k, v in self.origins.items() if k[: len(at)] != at}
        self.origins[at] = origin

    def _section(self, at: Key, origin: _Origin) -> dict[str, Any] | None:
        """The mapping at a key, created if needed; None if the value there is not a mapping."""
        current = self.values
        for depth, part in enumerate(at, start=1):
            child = current.get(str(part))
            if not isinstance(child, dict):
                if part in current and _is_section(at[:depth]):
                    return None  # a section of a wrong type, which validate() reports
                child = current[str(part)] = {}
                self.origins[at[:depth]] = origin
            current = child
        return current

    def _origin(self, key: Key) -> _Origin:
        """The origin of a key, or of the nearest section around it."""
        for end in range(len(key), 0, -1):
            if key[:end] in self.origins:
                return self.origins[key[:end]]
        return _Origin("settings")

    def _explain(self, detail: ErrorDetails) -> tuple[_Origin, str]:
        kind, context = detail["type"], detail.get("ctx", {})
        key = tuple(part for part in detail["loc"] if part != "[key]")
        if kind == "conflict":
            key += tuple(context["key"].split("."))
        origin, name = self._origin(key), _dotted(key)
        if any(_SECRET.search(str(part).lower().replace("-", "_")) for part in key):
            # Without the value, because it can be a secret.
            return origin, f"key '{name}' is not allowed: {_NO_SECRETS}"
        if kind == "extra_forbidden":
            return origin, f"unknown key '{name}' ({_hint(key)})"
        if kind == "missing":
            return origin, f"key '{name}' is missing"
        if kind == "conflict":
            return origin, f"{name}: {context['why']}"
        if kind == "value_error":
            return origin, f"{name}: {context['error']}"
        if kind in _EXPECTED:
            expected = _EXPECTED[kind].format(**context)
        else:
            expected = detail["msg"].removeprefix("Input should be ")
        return origin, f"{name}: expected {expected}, got {_show(detail['input'])}"


def _find(path: Path) -> Path:
    """The file, or the shipped one of that name, so that it works outside a checkout."""
    try:
        if path.exists():
            return path
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    shipped = data_dir("configs")
    if path.parent in (Path(), Path("configs")):
        for name in (path.name, f"{path.name}.yaml"):
            if (shipped / name).is_file():
                return shipped / name
    names = sorted(file.stem for file in shipped.glob("*.yaml"))
    near = difflib.get_close_matches(path.stem, names, n=1, cutoff=0.7)
    hint = f"did you mean '{near[0]}'?" if near else f"shipped: {', '.join(names)}"
    raise SettingsError(f"{path}: no such settings file ({hint})")


def _read_text(path: Path) -> str:
    if path.is_dir():
        raise SettingsError(f"{path}: is a directory; name a YAML file in it")
    try:
        return read_small(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"{path}: not UTF-8 text (byte {error.start}); save the file as UTF-8"
        ) from error
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error


def _read_profiles(path: Path) -> dict[str, object]:
    try:
        content = parse_json(_read_text(path))
    except json.JSONDecodeError as error:
        raise SettingsError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from error
    profiles = content.get("profiles") if isinstance(content, dict) else None
    if not isinstance(profiles, dict):
        raise SettingsError(f'{path}: expected {{"profiles": {{"t0": {{…}}, …}}}}')
    return profiles


def _compose(text: str, origin: _Origin) -> tuple[_Loader, yaml.Node | None]:
    try:
        loader = _Loader(text)
        return loader, loader.get_single_node()
    except yaml.YAMLError as error:
        raise _syntax_error(error, origin) from error
    except RecursionError as error:
        raise SettingsError(f"{origin}: nested too deeply; settings are a few levels") from error


def _construct(loader: _Loader, node: yaml.Node, origin: _Origin) -> object:
    try:
        return loader.construct_object(node, deep=True)
    except yaml.YAMLError as error:
        raise _syntax_error(error, origin) from error
    except ValueError as error:  # such as a date with a 13th month
        raise SettingsError(f"{_at(origin, node)}: not a valid value: {error}") from error


def _syntax_error(error: yaml.YAMLError, origin: _Origin) -> SettingsError:
    # Without PyYAML's excerpt of the file, which can show a secret.
    details = (getattr(error, name, None) for name in ("context", "problem", "reason"))
    what = ", ".join(detail for detail in details if detail)
    if isinstance(error, yaml.scanner.ScannerError | yaml.parser.ParserError):
        what += "; check indentation, brackets and quotes"
    mark = getattr(error, "problem_mark", None)
    if mark is not None and not origin.is_option:
        origin = _Origin(origin.source, mark.line + 1)
    return SettingsError(f"{origin}: not valid YAML: {what}")


def _at(origin: _Origin, node: yaml.Node) -> _Origin:
    return _Origin(origin.source, node.start_mark.line + 1)


def _annotation(key: Key) -> Any:
    current: Any = Settings
    for part in key:
        if isinstance(current, type) and issubclass(current, BaseModel):
            field = current.model_fields.get(str(part))
            current = field.annotation if field else None
        elif get_origin(current) is Mapping:  # entries whose names the user chooses
            current = get_args(current)[1]
        else:
            return None
    return current


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_section(key: Key) -> bool:
    annotation = _annotation(key)
    return _is_model(annotation) or get_origin(annotation) is Mapping


def _known_keys(at: Key = ()) -> list[str]:
    """All dotted keys below a section, in the order of the models."""
    annotation = _annotation(at)
    if not _is_model(annotation):
        return []
    return [
        key
        for name in annotation.model_fields
        for key in (_dotted((*at, name)), *_known_keys((*at, name)))
    ]


def _hint(key: Key) -> str:
    siblings = list(_annotation(key[:-1]).model_fields)
    leaf = str(key[-1])
    if "." in leaf and _dotted(key) in _known_keys():
        return "write it as nested keys, one level a line"
    if near := difflib.get_close_matches(leaf, siblings, n=1):
        return f"did you mean '{_dotted((*key[:-1], near[0]))}'?"
    # The right name, perhaps misspelt, in the wrong section.
    leaves = {dotted_key.rpartition(".")[2]: dotted_key for dotted_key in _known_keys()}
    if near := difflib.get_close_matches(leaf.rpartition(".")[2], leaves, n=1, cutoff=0.8):
        return f"did you mean '{leaves[near[0]]}'?"
    return f"valid here: {', '.join(siblings)}"


def _texts(value: object, at: Key = ()) -> Iterator[tuple[Key, str]]:
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, (*at, str(key)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _texts(item, (*at, index))


def _without_keys(text: str) -> str:
    for key in keys_of_environment().values():
        text = text.replace(key, HIDDEN)
    return hide_keys(text)


def _dotted(key: Key) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key)
    return text.removeprefix(".") or "top level"


def _show(value: object) -> str:
    if isinstance(value, Mapping):
        return f"a mapping ({', '.join(map(str, value))})"  # a value can be a secret
    if isinstance(value, str) and may_be_key(value):
        return f"a text of {len(value)} characters"
    text = json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
    return text if len(text) <= 80 else f"{text[:79]}…"
