"""Settings: what is accepted, what is refused, and whether the refusal helps."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from absa.config import SettingsError, load_settings, parse_override
from absa.nodes.assets import data_dir
from absa.schemas.settings import (
    DEFAULT_PERSONAS,
    MODEL_NODES,
    RESERVED_NAMES,
    OverrideSettings,
    Persona,
    Settings,
)

CONFIGS = data_dir("configs")
PROFILES = json.loads((CONFIGS / "debate_override_thresholds.json").read_text("utf-8"))["profiles"]
PERSONA = "{name: N, role: R, goal: G}"

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_settings(text: str) -> Path:
        file = tmp_path / "x.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    return write_settings


def problems(path: Path | str | None = None, overrides: dict[str, object] | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(path, overrides)
    return str(caught.value)


def leaf_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from leaf_keys(kind, f"{prefix}{name}.")
        else:
            yield prefix + name


# --- defaults and profiles ------------------------------------------------------------------


def test_default_yaml_no_file_and_plain_construction_agree() -> None:
    assert load_settings(CONFIGS / "default.yaml") == load_settings() == Settings()


def test_default_yaml_spells_out_every_key() -> None:
    text = (CONFIGS / "default.yaml").read_text("utf-8")
    for key in leaf_keys(Settings):
        leaf = key.rpartition(".")[2]
        assert re.search(rf"^ *(# )?{leaf}:", text, re.MULTILINE), key


def test_default_yaml_leaves_the_profile_keys_open_so_that_a_profile_still_works() -> None:
    settings = load_settings("configs/default.yaml", {"pipeline.override_profile": "t2"})
    assert settings.pipeline.debate_override.min_total == 0.6


def test_profile_t0_in_json_equals_the_defaults_of_the_class() -> None:
    assert OverrideSettings(**PROFILES["t0"]) == OverrideSettings()


@pytest.mark.parametrize(
    ("profile", "values"),
    [
        ("t0", (1.6, 0.8, 0.7, 0.5, True)),
        ("t1", (1.0, 0.5, 0.6, 0.5, True)),
        ("t2", (0.6, 0.3, 0.55, 0.5, False)),
    ],
)
def test_profile_sets_the_published_thresholds(profile: str, values: tuple[float, ...]) -> None:
    override = load_settings(None, {"pipeline.override_profile": profile}).pipeline.debate_override
    names = ("min_total", "min_margin", "min_target_conf", "ev_threshold", "l3_conservative")
    assert tuple(getattr(override, name) for name in names) == values


def test_explicit_key_wins_over_the_profile_and_leaves_its_other_keys(write: Write) -> None:
    text = "pipeline: {override_profile: t2, debate_override: {min_total: 1.2}}"
    override = load_settings(write(text)).pipeline.debate_override
    assert (override.min_total, override.min_margin) == (1.2, 0.3)


def test_explicit_override_wins_over_file_and_profile(write: Write) -> None:
    file = write("pipeline: {override_profile: t1, debate_override: {min_total: 1.2}}")
    settings = load_settings(file, {"pipeline.debate_override": {"min_total": 1.4}})
    override = settings.pipeline.debate_override
    assert (override.min_total, override.min_margin) == (1.4, 0.5)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", ":1: not valid JSON"),
        ("[]", 'expected {"profiles"'),
        ('{"profiles": {"t0": {"min_totl": 1}}}', "(profile t0): unknown key 'pipeline."),
        ('{"profiles": {"t0": {"min_total": -1}}}', "(profile t0): pipeline.debate_override.min_"),
    ],
)
def test_broken_profile_file_is_blamed_by_name(
    content: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "debate_override_thresholds.json"
    file.write_text(content, encoding="utf-8")
    monkeypatch.setattr("absa.config.data_dir", lambda name: tmp_path)
    message = problems()
    assert message.startswith(str(file))
    assert says in message


@pytest.mark.parametrize(
    ("name", "differs"),
    [
        (
            "abl_no_debate",
            {"pipeline.enable_debate": False, "pipeline.enable_debate_override": False},
        ),
        ("abl_no_debate_override", {"pipeline.enable_debate_override": False}),
        ("abl_no_validator", {"pipeline.enable_validator": False}),
        ("abl_no_stage2", {"pipeline.enable_stage2": False}),
        ("abl_no_moderator", {"pipeline.enable_moderator": False}),
        ("override_t1", {"pipeline.override_profile": "t1"}),
        ("override_t2", {"pipeline.override_profile": "t2"}),
        ("openai", {"backend.kind": "openai", "backend.model": "gpt-4o-mini"}),
    ],
)
def test_shipped_config_differs_from_the_default_in_what_its_name_says(
    name: str, differs: dict[str, object]
) -> None:
    assert load_settings(name) == load_settings(None, differs)


def test_settings_survive_a_round_trip_through_json() -> None:
    settings = load_settings("override_t2", {"pipeline.moderator.rules": ["E", "Z"]})
    assert Settings.model_validate_json(settings.model_dump_json()) == settings


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().pipeline.enable_debate = False


# --- finding and reading files --------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["configs/abl_no_debate.yaml", "abl_no_debate.yaml", "abl_no_debate"]
)
def test_shipped_config_is_found_outside_a_checkout(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings(name).pipeline.enable_debate is False


def test_own_file_wins_over_a_shipped_one_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "default.yaml").write_text("backend: {seed: 7}", encoding="utf-8")
    assert load_settings("configs/default.yaml").backend.seed == 7


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "pipeline:\n  debate:\nbackend:\n"])
def test_empty_file_or_section_means_the_defaults(text: str, write: Write) -> None:
    assert load_settings(write(text)) == Settings()


def test_byte_order_mark_is_no_part_of_the_first_key(write: Write) -> None:
    assert load_settings(write("\ufeffbackend: {seed: 3}")).backend.seed == 3


def test_missing_file_names_the_nearest_shipped_one() -> None:
    text = problems("configs/abl_no_debat.yaml")
    assert text == (
        "configs/abl_no_debat.yaml: no such settings file (did you mean 'abl_no_debate'?)"
    )


def test_missing_file_elsewhere_is_not_replaced_by_a_shipped_one(tmp_path: Path) -> None:
    assert "no such settings file" in problems(tmp_path / "default.yaml")


def test_directory_is_refused_with_a_remedy(tmp_path: Path) -> None:
    assert problems(tmp_path) == f"{tmp_path}: is a directory; name a YAML file in it"


def test_file_that_is_not_utf8_is_refused_with_a_remedy(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes("pipeline: {}  # 설정".encode("cp949"))
    assert problems(file) == f"{file}: not UTF-8 text (byte 16); save the file as UTF-8"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("pipeline:\n  debate: [1\n", 3, "check indentation, brackets and quotes"),
        ("a: 1\n---\nb: 2\n", 2, "expected a single document"),
        ("backend: &b {}\npipeline: *b\n", 2, "aliases (*name) are not supported"),
        ("backend:\n  seed: !!python/object/apply:os.getpid []\n", 2, "constructor"),
        ("- pipeline\n", 1, "the top level must be a mapping"),
        ("backend:\n  seed: 2024-13-01\n", 2, "not a valid value: month"),
        ("? [a, b]\n: 1\n", 1, "is not plain text"),
    ],
)
def test_broken_yaml_is_refused_with_its_line(
    text: str, line: int, says: str, write: Write
) -> None:
    file = write(text)
    message = problems(file)
    assert message.startswith(f"{file}:{line}: ")
    assert says in message


@pytest.mark.parametrize("text", ["[" * 5000, "a: \x01"])
def test_hostile_yaml_is_an_error_of_settings_not_a_crash(text: str, write: Write) -> None:
    problems(write(text))


# --- wrong keys and values ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (
            "pipeline:\n  enable_debat: true",
            2,
            "unknown key 'pipeline.enable_debat' (did you mean 'pipeline.enable_debate'?)",
        ),
        (
            "pipeline:\n  rounds: 2",
            2,
            "unknown key 'pipeline.rounds' (did you mean 'pipeline.debate.rounds'?)",
        ),
        (
            "backend:\n  roles:\n    judge: {modle: m}",
            3,
            "unknown key 'backend.roles.judge.modle' (did you mean 'backend.roles.judge.model'?)",
        ),
        (
            "pipeline.enable_debate: true",
            1,
            "unknown key 'pipeline.enable_debate' (write it as nested keys, one level a line)",
        ),
        (
            "zzz: 1",
            1,
            "unknown key 'zzz' (valid here: pipeline, prompts, resources, demos, backend, aux_hf, "
            "wiring)",
        ),
        (
            "pipeline:\n  enable_debate: true\n  enable_debate: false",
            3,
            "duplicate key 'pipeline.enable_debate' (first given on line 2)",
        ),
        ("pipeline: 5", 1, "pipeline: expected a mapping of keys, got 5"),
        (
            "pipeline: {enable_debate: 'yes'}",
            1,
            'pipeline.enable_debate: expected true or false, got "yes"',
        ),
        ("pipeline: {enable_debate: }", 1, "enable_debate: expected true or false, got null"),
        (
            "pipeline: {protocol: chat}",
            1,
            "pipeline.protocol: expected 'debate', 'conflict_review', 'selective', 'single' or "
            "'vote', got \"chat\"",
        ),
        (
            "pipeline: {debate: {protocol: chat}}",
            1,
            "pipeline.debate.protocol: expected 'patch' or 'persona', got \"chat\"",
        ),
        (
            "pipeline: {override_profile: t9}",
            1,
            "pipeline.override_profile: expected 't0', 't1' or 't2', got \"t9\"",
        ),
        ("pipeline: {override_profile: [t0]}", 1, "expected 't0', 't1' or 't2', got [\"t0\"]"),
        ("backend: {kind: ofline}", 1, "backend.kind: expected 'offline', 'openai' or 'replay'"),
    ],
)
def test_wrong_key_or_value_is_named_with_line_and_remedy(
    text: str, line: int, says: str, write: Write
) -> None:
    file = write(text)
    message = problems(file)
    assert message.startswith(f"{file}:{line}: ")
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("pipeline.debate.rounds", 0, "at least 1"),
        ("pipeline.debate.rounds", 1.5, "a whole number"),
        ("pipeline.debate.rounds", True, "a whole number"),
        ("pipeline.debate.order", "epm", "a list"),
        ("pipeline.debate.hint_weights.drop_tuple", -0.1, "at least 0"),
        ("pipeline.debate_override.min_total", float("nan"), "a finite number"),
        ("pipeline.debate_override.min_margin", float("inf"), "a finite number"),
        ("pipeline.debate_override.min_margin", -1, "at least 0"),
        ("pipeline.debate_override.ev_threshold", "0.5", "a number"),
        ("pipeline.debate_override.ev_threshold", True, "a number"),
        ("pipeline.debate_override.min_target_conf", 1.01, "at most 1"),
        ("pipeline.debate_override.max_overrides_per_sample", -1, "at least 0"),
        ("pipeline.debate_override.ev_weights.debate_support", -1, "at least 0"),
        ("backend.temperature", 2.1, "at most 2"),
        ("backend.timeout_s", 0, "above 0"),
        ("backend.max_retries", -1, "at least 0"),
        ("backend.max_concurrency", 0, "at least 1"),
        ("backend.seed", -1, "from 0 to 2^63 - 1"),
        ("backend.seed", 2**63, "from 0 to 2^63 - 1"),
        ("backend.roles.ate.seed", 10**30, "from 0 to 2^63 - 1"),
        ("backend.model", " ", "not empty"),
        ("backend.base_url", "localhost:8000", "a URL such as"),
    ],
)
def test_value_out_of_bounds_is_refused_with_what_was_expected(
    key: str, value: object, expected: str
) -> None:
    message = problems(None, {key: value})
    assert message.startswith(f"--set {key}: {key}: expected ")
    assert expected in message
    assert ", got " in message


def test_all_problems_are_reported_at_once_in_the_order_of_the_lines(write: Write) -> None:
    file = write(
        "pipeline:\n"
        "  enable_debat: true\n"
        "  moderator:\n"
        "    rules:\n"
        "      - Z\n"
        "      - Q\n"
        "backend:\n"
        "  seed: x\n"
        "  seed: 1\n"
        "zzz: 1\n"
    )
    lines = problems(file, {"backend.kind": "none"}).splitlines()
    starts = [f"{file}:{line}" for line in (2, 6, 8, 9, 10)]
    assert [line.split(": ")[0] for line in lines] == ["--set backend.kind", *starts]
    assert "pipeline.moderator.rules[1]" in lines[2]


def test_problem_count_is_available_to_programs(write: Write) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(write("a: 1\nb: 2\n"))
    assert len(caught.value.problems) == 2


def test_exponent_without_a_dot_is_a_number_not_text(write: Write) -> None:
    settings = load_settings(write("pipeline: {debate_override: {min_total: 1e-3}}"))
    assert settings.pipeline.debate_override.min_total == 0.001


@pytest.mark.parametrize(
    "key", ["backend.api_key", "backend.apiKey", "backend.roles.judge.api-key", "openai_api_key"]
)
def test_secret_is_refused_without_being_repeated(key: str) -> None:
    message = problems(None, {key: "sk-hush"})
    assert "OPENAI_API_KEY" in message
    assert "sk-hush" not in message


@pytest.mark.parametrize(
    "text",
    [
        "backend: {roles: {api_key: sk-hush}}",
        "backend: {model: {api_key: sk-hush}}",
        "backend: {base_url: 'https://host/v1?api-key=sk-hush'}",
        "backend: {base_url: 'https://me:sk-hush@host/v1'}",
        "backend:\n  api_key: 'sk-hush\n",
    ],
)
def test_secret_in_an_odd_place_is_not_repeated_either(text: str, write: Write) -> None:
    assert "sk-hush" not in problems(write(text))


# --- meaning of single settings -------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("backend:\n  kind: replay", 2, "backend.kind: 'replay' needs backend.path"),
        ("backend:\n  kind: openai", 2, "backend.kind: 'openai' needs backend.model"),
        (
            "backend:\n  roles:\n    jugde: {seed: 1}",
            3,
            "backend.roles.jugde: no node 'jugde' asks a model; known: arbiter, ate, ate_review",
        ),
        (
            "pipeline:\n  debate:\n    order: [epm, foo]",
            3,
            "pipeline.debate.order: unknown persona 'foo'; known: cj, epm, tan",
        ),
        ("pipeline:\n  debate:\n    order: []", 3, "must name at least one persona"),
        ("pipeline:\n  debate:\n    order: [epm, epm]", 3, "names 'epm' more than once"),
        (
            f"pipeline:\n  debate:\n    personas:\n      My-One: {PERSONA}",
            4,
            "pipeline.debate.personas.My-One: a persona's key must be snake_case",
        ),
        (
            "pipeline:\n  debate:\n    personas:\n      extra: {name: N, role: R}",
            4,
            "key 'pipeline.debate.personas.extra.goal' is missing",
        ),
        ("pipeline:\n  moderator: {rules: [Z, B, Z]}", 2, "lists 'Z' more than once"),
    ],
)
def test_inconsistent_settings_are_refused_at_the_line_to_change(
    text: str, line: int, says: str, write: Write
) -> None:
    file = write(text)
    message = problems(file)
    assert message.startswith(f"{file}:{line}: ")
    assert says in message


def test_missing_path_for_replay_blames_the_option_that_asked_for_replay(write: Write) -> None:
    message = problems(write("backend: {seed: 1}"), {"backend.kind": "replay"})
    assert message.startswith("--set backend.kind: ")


def test_all_zero_ev_weights_are_refused_because_their_mean_is_undefined() -> None:
    names = ("debate_support", "validator_resolved", "grounding_improvement")
    zeros = dict.fromkeys((*names, "alignment_improvement"), 0)
    message = problems(None, {"pipeline.debate_override.ev_weights": zeros})
    assert "at least one weight must be above 0" in message


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_persona_may_not_take_the_name_of_another_node(name: str) -> None:
    persona = {"name": "N", "role": "R", "goal": "G"}
    assert "choose another" in problems(None, {f"pipeline.debate.personas.{name}": persona})


def test_reserved_names_leave_the_default_personas_free() -> None:
    assert not RESERVED_NAMES & {n for names in DEFAULT_PERSONAS.values() for n in names}
    assert set(MODEL_NODES) <= RESERVED_NAMES


def test_new_persona_can_speak_and_have_a_model_of_its_own(write: Write) -> None:
    settings = load_settings(
        write(
            f"pipeline: {{debate: {{order: [epm, sceptic], personas: {{sceptic: {PERSONA}}}}}}}\n"
            "backend: {roles: {sceptic: {model: m, temperature: 1}}}\n"
        )
    )
    debate = settings.pipeline.debate
    assert debate.order == ("epm", "sceptic")
    assert list(debate.speakers) == ["epm", "tan", "cj", "sceptic"]
    assert debate.speakers["sceptic"] == Persona(name="N", role="R", goal="G")
    assert settings.backend.roles["sceptic"].temperature == 1


def test_one_field_of_a_default_persona_can_be_changed_alone() -> None:
    settings = load_settings(None, {"pipeline.debate.personas.epm.goal": "증거만 본다"})
    epm = settings.pipeline.debate.speakers["epm"]
    assert (epm.name, epm.goal) == ("EPM", "증거만 본다")
    assert settings.pipeline.debate.speakers["tan"] == DEFAULT_PERSONAS["patch"]["tan"]


def test_rules_compare_as_a_set_whatever_order_they_were_written_in() -> None:
    one = load_settings(None, {"pipeline.moderator.rules": ["E", "Z", "C"]})
    other = load_settings(None, {"pipeline.moderator.rules": ["C", "E", "Z"]})
    assert one == other
    assert one.pipeline.moderator.rules == ("Z", "C", "E")


def test_no_rule_at_all_is_a_valid_ablation() -> None:
    assert load_settings(None, {"pipeline.moderator.rules": []}).pipeline.moderator.rules == ()


# --- overrides ------------------------------------------------------------------------------


def test_override_wins_over_the_file(write: Write) -> None:
    file = write("pipeline: {enable_debate: true}\nbackend: {seed: 1}")
    settings = load_settings(file, {"pipeline.enable_debate": False})
    assert settings.pipeline.enable_debate is False
    assert settings.backend.seed == 1


def test_mapping_override_is_merged_and_list_override_replaces(write: Write) -> None:
    file = write("pipeline: {debate: {rounds: 2, order: [epm, tan]}}")
    debate = load_settings(file, {"pipeline.debate": {"order": ["cj"]}}).pipeline.debate
    assert (debate.rounds, debate.order) == (2, ("cj",))


def test_override_of_a_list_is_blamed_instead_of_the_line_it_replaced(write: Write) -> None:
    file = write("pipeline: {moderator: {rules: [Z, B]}}")
    message = problems(file, {"pipeline.moderator.rules": ["Q"]})
    assert message.startswith("--set pipeline.moderator.rules: ")


def test_override_inside_an_ill_typed_section_does_not_hide_it(write: Write) -> None:
    file = write("pipeline: 5")
    assert f"{file}:1: pipeline: expected" in problems(file, {"pipeline.enable_debate": False})


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (
            "pipeline.enable_debat",
            "unknown key 'pipeline.enable_debat' (did you mean 'pipeline.enable_debate'?)",
        ),
        ("backend.model.x", "backend.model: expected text, got a mapping (x)"),
        ("pipeline..x", "expected a dotted key"),
        ("", "expected a dotted key"),
    ],
)
def test_wrong_override_names_the_option(key: str, says: str) -> None:
    message = problems(None, {key: False})
    assert message.startswith(f"--set {key}: ")
    assert says in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pipeline.enable_debate=false", ("pipeline.enable_debate", False)),
        ("pipeline.enable_debate = off", ("pipeline.enable_debate", False)),
        ("pipeline.debate.order=[epm, cj]", ("pipeline.debate.order", ["epm", "cj"])),
        ("pipeline.debate={rounds: 2}", ("pipeline.debate", {"rounds": 2})),
        ("backend.base_url=http://h:1/v1?a=b", ("backend.base_url", "http://h:1/v1?a=b")),
        ("backend.model=llama3:8b", ("backend.model", "llama3:8b")),
        ("backend.seed=3", ("backend.seed", 3)),
        ("backend.path=", ("backend.path", None)),
    ],
)
def test_command_line_override_is_read_as_yaml(text: str, expected: tuple[str, object]) -> None:
    assert parse_override(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pipeline.enable_debate", "--set pipeline.enable_debate: expected key=value"),
        ("=1", "expected key=value"),
        ("backend.seed=[1", "--set backend.seed: not valid YAML"),
        ("backend.seed=*a", "--set backend.seed: not valid YAML"),
    ],
)
def test_command_line_override_that_cannot_be_read_is_refused(text: str, says: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(says)):
        parse_override(text)


# --- names of the source documents ----------------------------------------------------------


def test_debate_enabled_is_another_name_of_enable_debate(write: Write) -> None:
    source = "pipeline:\n  debate:\n    enabled: false\n    max_rounds: 3\n    injection:\n"
    source += '      strategy: "during_debate_one_shot"\n      trigger: "deadlock_obs2of4"\n'
    settings = load_settings(write(source + "      allow_multiple_injections: false\n"))
    assert settings.pipeline.enable_debate is False
    assert load_settings("default", {"pipeline.debate.enabled": False}) == load_settings(
        None, {"pipeline.enable_debate": False}
    )


def test_max_rounds_is_recorded_and_changes_nothing() -> None:
    noted = load_settings(None, {"pipeline.debate.max_rounds": 3})
    assert noted.pipeline.debate.max_rounds == 3
    assert noted.model_dump(mode="json")["pipeline"]["debate"]["max_rounds"] == 3
    assert noted.pipeline.debate.rounds == 1
    assert noted.pipeline.debate_calls == Settings().pipeline.debate_calls


def test_the_classifier_may_be_set_by_the_names_of_the_source() -> None:
    settings = load_settings(None, {"aux_hf_enabled": True, "aux_hf_checkpoint": "some/model"})
    assert (settings.aux_hf.enabled, settings.aux_hf.checkpoint) == (True, "some/model")


def test_two_names_of_one_setting_must_agree(write: Write) -> None:
    both = "pipeline:\n  enable_debate: true\n  debate: {{enabled: {}}}\n"
    assert load_settings(write(both.format("true"))).pipeline.enable_debate
    file = write(both.format("false"))
    assert problems(file) == (
        f"{file}:3: 'pipeline.debate.enabled' is false, but 'pipeline.enable_debate' ({file}:2) "
        "is true; both names mean one setting: keep one"
    )
    options = {"pipeline.enable_debate": True, "pipeline.debate.enabled": False}
    assert "both names mean one setting" in problems(None, dict(options))
    assert "both names mean one setting" in problems(None, dict(reversed(options.items())))


def test_an_option_wins_over_the_file_under_either_name(write: Write) -> None:
    real, alias = "pipeline: {enable_debate: true}", "pipeline: {debate: {enabled: true}}"
    for text in (real, alias):
        for key in ("pipeline.enable_debate", "pipeline.debate.enabled"):
            assert not load_settings(write(text), {key: False}).pipeline.enable_debate


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pipeline: {debate: {enabled: 'no'}}", "enable_debate: expected true or false, got"),
        ("pipeline: {debate: {enabled: }}", "enable_debate: expected true or false, got null"),
        ("pipeline: {debate: {enabled: {a: 1}}}", "enable_debate: expected true or false, got"),
        ("pipeline: {debate: {max_rounds: many}}", "max_rounds: expected a whole number"),
        ("pipeline: 5\naux_hf: 5\naux_hf_enabled: true", "expected a mapping of keys, got 5"),
        ("aux_hf: {candidate_labels: [positive]}", "must name at least two labels, each once"),
        ("aux_hf: {hypothesis_template: It is good.}", "must have one {} for the candidate label"),
    ],
)
def test_a_wrong_value_under_a_name_of_the_source_is_refused(
    text: str, says: str, write: Write
) -> None:
    file = write(text)
    message = problems(file)
    assert message.startswith(f"{file}:")
    assert says in message
