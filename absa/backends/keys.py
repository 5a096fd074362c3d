"""API keys: from the environment, else from the user's keyring; never from settings.

Only `Keys` holds them. `hide` removes them from the messages of libraries. `redaction.py` removes
them from the responses of servers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from absa.schemas.secrets import HIDDEN
from absa.schemas.settings import BackendSettings, RoleSettings

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_VARIABLE = "OPENAI_API_KEY"
SERVICE = "absa"
"""The keyring service of keys that no setting names. The entry has the variable's name."""

SHORTEST_KEY = 8
"""A shorter key is a placeholder, such as EMPTY, for a server that needs none."""


@dataclass(frozen=True)
class Key:
    """A key or None, and where it was found or searched."""

    value: str | None = field(repr=False)
    where: str
    remedy: str = ""
    is_needed: bool = False
    """Whether the settings name the key, so the server needs it."""


class Keys:
    """The keys of one backend. Each is read from the keyring once: that may need a password."""

    def __init__(self) -> None:
        self._from_keyring: dict[str, Key] = {}
        self._used: set[str] = set()

    def is_at_hand(self, role: RoleSettings) -> bool:
        """Whether `find` can answer without the keyring, which is slow."""
        variable, entry = _places(role)
        return bool(_from_environment(variable)) or entry is None or entry in self._from_keyring

    def find(self, role: RoleSettings) -> Key:
        """The key for a role's server."""
        variable, entry = _places(role)
        looked = f"environment variable {variable}" if variable else ""
        if value := _from_environment(variable):
            key = _usable(value, looked)
        elif entry is None:
            key = Key(None, "nowhere, as no key is named for this server")
        else:
            if entry not in self._from_keyring:
                self._from_keyring[entry] = _ask_keyring(entry)
            key = self._from_keyring[entry]
            if not key.value and not key.remedy:
                named = role.api_key_keyring or variable != OPENAI_VARIABLE
                store = f"keyring set {entry.replace('/', ' ', 1)}"
                remedy = f"set {variable} (or: {store})" if variable else f"run: {store}"
                where = f"{looked} and {key.where}" if looked else key.where
                key = Key(None, where, remedy, is_needed=bool(named))
        if key.value:
            self._used.add(key.value)
        return key

    def hide(self, text: str) -> str:
        """Replace the keys in a text."""
        for value in self._used:
            text = text.replace(value, HIDDEN)
        return text


def keys_of_environment(backend: BackendSettings | None = None) -> dict[str, str]:
    """The keys in the variables that settings name, and in OpenAI's."""
    named = [backend.api_key_env] if backend else []
    if backend:
        named += [role.api_key_env for role in backend.roles.values() if role.api_key_env]
    values = {name: _from_environment(name) for name in (OPENAI_VARIABLE, *named)}
    return {name: value for name, value in values.items() if value and len(value) >= SHORTEST_KEY}


def _places(role: RoleSettings) -> tuple[str | None, str | None]:
    variable, entry = role.api_key_env, role.api_key_keyring
    if variable is None and entry is None and role.base_url in (None, OPENAI_URL):
        variable = OPENAI_VARIABLE
    if entry is None and variable is not None:
        entry = f"{SERVICE}/{variable}"
    return variable, entry


def _from_environment(variable: str | None) -> str | None:
    return os.environ.get(variable, "").strip() or None if variable else None


def _usable(value: str, where: str) -> Key:
    """Check that a key can be sent in a header. An invalid one must not appear in an error."""
    if value.isascii() and value.isprintable():
        return Key(value, where)
    remedy = "set it again: it contains characters that are not allowed in a key"
    return Key(None, where, remedy, is_needed=True)


def _ask_keyring(entry: str) -> Key:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        return Key(None, f"keyring entry {entry} (no keyring is installed)")
    service, _, name = entry.partition("/")
    try:
        value = (keyring.get_password(service, name) or "").strip()
    except KeyringError as error:  # the keyring is locked or missing
        return Key(None, f"keyring entry {entry} ({type(error).__name__})")
    where = f"keyring entry {entry}"
    return _usable(value, where) if value else Key(None, where)
