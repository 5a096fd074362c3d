"""The settings of a run: switches, thresholds and the backend.

Every key has an effect, except the note `debate.max_rounds`. `absa.config` reads the files.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from absa.schemas.secrets import LOOKS_LIKE_KEY, may_be_key
from absa.schemas.state import STATE_KEYS

SECOND_READER = "second_reader"
"""The node that asks the embedded analyzer with every backend. It makes no model call."""

MODEL_NODES = (
    *("extract", SECOND_READER, "ate", "atsa", "validator", "judge"),
    *("ate_review", "atsa_review", "validator_review"),
    *("p_neg", "p_imp", "p_lit", "review_a", "review_b", "review_c", "arbiter"),
)
"""Nodes that call a model, apart from the debate's speakers."""

RuleName = Literal["Z", "B", "M", "C", "A", "D", "E"]

RULE_NAMES: tuple[RuleName, ...] = ("Z", "B", "M", "C", "A", "D", "E")
"""The Moderator's rules in the order in which they run."""

RULE_NODES = (
    *("intake", "stage1", "review_context", "apply_reviews", "override_gate", "adopt", "moderator"),
    *("merge_candidates", "count_votes", "vote"),
    *("compare", "extract_again", "fuse"),
    *("compare_stage1", "contested"),
    *("recall", "human_review", "finalize", "remember"),
)
"""Nodes that apply rules, apart from those of the gate's verdicts (`apply_…`, `skip_…`)."""

RESERVED_NAMES = STATE_KEYS | {*MODEL_NODES, *RULE_NODES}
"""Names that a persona cannot have, because nodes or state keys have them."""

MAX_CONCURRENCY = 10_000
"""Calls, or samples, in flight."""

# Strict, because a lenient parse would read the text "no" as a flag or 1 as true.
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[int, Field(strict=True, ge=1)]
# Far above any use. They guard against typing errors.
Rounds = Annotated[int, Field(strict=True, ge=1, le=100)]
Votes = Annotated[int, Field(strict=True, ge=1, le=1_000)]
Examples = Annotated[int, Field(strict=True, ge=0, le=1_000)]
Retries = Annotated[int, Field(strict=True, ge=0, le=100)]
Parallel = Annotated[int, Field(strict=True, ge=1, le=MAX_CONCURRENCY)]
Seconds = Annotated[float, Field(strict=True, gt=0, le=86_400, allow_inf_nan=False)]
Rate = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Weight = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Confidence = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Temperature = Annotated[float, Field(strict=True, ge=0, le=2, allow_inf_nan=False)]


def _refuse_key(text: str) -> str:
    # Settings are written to every run's manifest. The message does not show the text.
    if LOOKS_LIKE_KEY.search(text):
        raise ValueError(
            "this looks like a key, and keys do not belong in settings; "
            "set the environment variable OPENAI_API_KEY"
        )
    return text


Words = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1)]
Text = Annotated[Words, AfterValidator(_refuse_key)]


def _check_seed(seed: int) -> int:
    # Servers and the journal keep a seed in 64 bits.
    if not 0 <= seed < 2**63:
        raise ValueError(f"expected a whole number from 0 to 2^63 - 1, got {seed}")
    return seed


def _check_base_url(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ValueError(f"not a URL: {error}") from None
    if parts.username or parts.password or parts.query:
        # Settings are written to every run's manifest. The message does not show the URL.
        raise ValueError("credentials and parameters do not belong in a URL; use OPENAI_API_KEY")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        # Users sometimes enter a key here, so only a text that looks like an address is shown.
        is_address = ":" in url and "@" not in url and not may_be_key(url)
        shown = repr(url) if is_address else f"a text of {len(url)} characters"
        raise ValueError(f"expected a URL such as http://localhost:8000/v1, got {shown}")
    return url.rstrip("/")


def _matching(pattern: str, expected: str) -> AfterValidator:
    """Check that a text has this form. It is not shown: it can be a key, entered by mistake."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"expected {expected}")
        return text

    return AfterValidator(check)


def _check_persona_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"a persona's key must be snake_case (a-z, 0-9, _), got {name!r}")
    if name in RESERVED_NAMES or name.startswith(("apply_", "skip_")):
        raise ValueError(f"{name!r} is the name of another node or state key; choose another")
    return name


def _check_wiring_name(name: str) -> str:
    if not re.fullmatch(r"[\w.]+:\w+", name):
        raise ValueError(f"expected module:function, such as my_graph:my_wiring, got {name!r}")
    return name


Seed = Annotated[int, Field(strict=True), AfterValidator(_check_seed)]
WiringName = Annotated[Text, AfterValidator(_check_wiring_name)]
BaseUrl = Annotated[Text, AfterValidator(_check_base_url)]
Variable = Annotated[
    Words,
    _matching(
        r"[A-Z][A-Z0-9_]{0,63}", "the name of an environment variable, such as OPENAI_API_KEY"
    ),
]
KeyringEntry = Annotated[
    Text,
    _matching(r"[^/]+/(?s:.)+", "a keyring entry as service/name, such as absa/OPENAI_API_KEY"),
]
PersonaName = Annotated[str, AfterValidator(_check_persona_name)]


def _conflict(key: str, why: str) -> PydanticCustomError:
    """An error about several keys, reported for `key` (dotted, relative to the model)."""
    return PydanticCustomError("conflict", "{why}", {"key": key, "why": why})


def _repeated(names: tuple[str, ...]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


class _Section(BaseModel):
    # Pydantic's own message would show the value, which can be a misplaced key.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Persona(_Section):
    """A speaker of the debate with the texts of its prompt."""

    name: Text
    role: Text
    goal: Text
    stance: str = ""
    style: str = ""


DebateProtocol = Literal["patch", "persona"]

DEFAULT_PERSONAS: Mapping[str, Mapping[str, Persona]] = {
    "patch": {
        "epm": Persona(
            name="EPM",
            role="Evidence–Polarity Mapper",
            goal="Determine polarity only when supported by explicit textual evidence",
        ),
        "tan": Persona(
            name="TAN",
            role="Target–Aspect Normalizer",
            goal="Resolve null, duplicate, or misaligned aspect targets",
        ),
        "cj": Persona(
            name="CJ",
            role="Consistency Judge",
            goal="Produce a single, consistent set of aspect–polarity tuples",
        ),
    },
    "persona": {
        "analyst": Persona(
            name="Analyst",
            role="Analyst of the panel",
            stance="neutral",
            style="dry, from evidence",
            goal="Give a neutral judgement that rests on evidence",
        ),
        "critic": Persona(
            name="Critic",
            role="Critic of the panel",
            stance="con",
            style="sharp and logical",
            goal="Bring out what is negative or critical",
        ),
        "empath": Persona(
            name="Empath",
            role="Empath of the panel",
            stance="pro",
            style="warm, attentive to feeling",
            goal="Bring out what is positive or supportive",
        ),
    },
}
"""The speakers of each debate protocol, in their order."""

_DEFAULT_ROUNDS: Mapping[str, int] = {"patch": 1, "persona": 2}


class HintWeights(_Section):
    """The weight of an edit in the override gate, by operation.

    `final_patch` is the weight of a polarity or drop edit in the judge's patch.
    """

    set_polarity: Weight = 0.5
    confirm_tuple: Weight = 0.5
    drop_tuple: Weight = 0.8
    final_patch: Weight = 0.8
    set_aspect_ref: Weight = 0.0
    merge_tuples: Weight = 0.0
    second_reader: Weight = 0.8
    """The embedded analyzer's tuples (`debate.when: contested`), times their probability."""
    set_category: Weight = 0.0


class InjectionSettings(_Section):
    """When memory is shown to `cj` and the judge: at two of four signs of deadlock."""

    strategy: Literal["during_debate_one_shot"] = "during_debate_one_shot"
    trigger: Literal["deadlock_obs2of4"] = "deadlock_obs2of4"
    allow_multiple_injections: Flag = False


class DebateSettings(_Section):
    """The debate: when it is held, its speakers, order, rounds and weights."""

    protocol: DebateProtocol = "patch"
    when: Literal["always", "contested"] = "always"
    """`contested`: only for texts on which Stage 1 and the embedded analyzer differ, or for which
    the Validator reports a risk; in one round."""
    rounds: Rounds = 1
    max_rounds: Rounds | None = None
    """A note about the conditions of an experiment. It has no effect; `rounds` has."""
    # Declared before `order`, whose validator needs it.
    personas: Mapping[PersonaName, Persona] = Field(default_factory=dict)
    order: tuple[str, ...] = tuple(DEFAULT_PERSONAS["patch"])
    hint_weights: HintWeights = HintWeights()
    injection: InjectionSettings = InjectionSettings()

    @property
    def speakers(self) -> Mapping[str, Persona]:
        """All personas by key: the three defaults, changed and extended by `personas`."""
        return {**DEFAULT_PERSONAS[self.protocol], **self.personas}

    @model_validator(mode="before")
    @classmethod
    def _fill_in_protocol(cls, value: object) -> object:
        """Fill in the protocol's rounds and order if they are not set."""
        if not isinstance(value, Mapping) or value.get("protocol") not in DEFAULT_PERSONAS:
            return value
        protocol = value["protocol"]
        rounds = 1 if value.get("when") == "contested" else _DEFAULT_ROUNDS[protocol]
        return {"rounds": rounds, "order": tuple(DEFAULT_PERSONAS[protocol]), **value}

    @model_validator(mode="after")
    def _check_when(self) -> Self:
        if self.when == "contested" and self.rounds != 1:
            raise _conflict("rounds", "a contested debate is held in one round: set rounds to 1")
        return self

    @field_validator("personas", mode="before")
    @classmethod
    def _complete_default_personas(cls, value: object, info: ValidationInfo) -> object:
        """Fill in the other fields of a default persona if a user changes one field."""
        if not isinstance(value, Mapping):
            return value
        default = DEFAULT_PERSONAS[info.data.get("protocol", "patch")]
        return {
            key: {**default[key].model_dump(), **persona}
            if key in default and isinstance(persona, Mapping)
            else persona
            for key, persona in value.items()
        }

    @field_validator("order")
    @classmethod
    def _check_order(cls, order: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if not order:
            raise ValueError("must name at least one persona")
        if repeated := _repeated(order):
            # There is one node per speaker, so a speaker has one turn per round.
            raise ValueError(f"names {', '.join(map(repr, repeated))} more than once")
        if "personas" in info.data:
            default = DEFAULT_PERSONAS[info.data.get("protocol", "patch")]
            personas = {**default, **info.data["personas"]}
            if unknown := [name for name in order if name not in personas]:
                names = ", ".join(map(repr, unknown))
                raise ValueError(f"unknown persona {names}; known: {', '.join(sorted(personas))}")
        return order


class EvWeights(_Section):
    """Weights of the components of `ev_score`; only available components are averaged."""

    debate_support: Weight = 0.4
    validator_resolved: Weight = 0.3
    grounding_improvement: Weight = 0.2
    alignment_improvement: Weight = 0.1

    @model_validator(mode="after")
    def _check_sum(self) -> Self:
        if not any(weight for _, weight in self):
            raise ValueError("at least one weight must be above 0")
        return self


class OverrideSettings(_Section):
    """Thresholds of the override gate and of adoption. The defaults are profile t0."""

    min_total: Weight = 1.6
    min_margin: Weight = 0.8
    min_target_conf: Confidence = 0.7
    ev_threshold: Weight = 0.5
    l3_conservative: Flag = True
    max_overrides_per_sample: Count = 1
    allow_drop: Flag = False
    ev_weights: EvWeights = EvWeights()


class ModeratorSettings(_Section):
    """The Moderator's active rules. They always run in a fixed order."""

    rules: tuple[RuleName, ...] = RULE_NAMES

    @field_validator("rules")
    @classmethod
    def _check_rules(cls, rules: tuple[RuleName, ...]) -> tuple[RuleName, ...]:
        if repeated := _repeated(rules):
            raise ValueError(f"lists {', '.join(map(repr, repeated))} more than once")
        # One spelling per set, so that equal settings compare and hash equal.
        return tuple(sorted(rules, key=RULE_NAMES.index))


class MemorySettings(_Section):
    """Episodic memory. `silent` recalls cases but shows them to no agent, as a control for `on`.

    `store` is the place of the episodes: this process, the folder `path`, or the PostgreSQL
    database in the environment variable ABSA_MEMORY_URL.
    """

    condition: Literal["off", "silent", "on"] = "off"
    store: Literal["memory", "sqlite", "postgres"] = "memory"
    path: str | None = None
    # Also store and recall cases of the evaluated split.
    allow_eval_writes: Flag = False

    @field_validator("condition", mode="before")
    @classmethod
    def _read_yaml_words(cls, value: object) -> object:
        # YAML 1.1 reads the words `on` and `off` as booleans.
        return {True: "on", False: "off"}[value] if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _check_path(self) -> Self:
        if self.store == "sqlite" and self.path is None:
            raise _conflict("path", "a store of kind sqlite needs a path: the folder to keep it in")
        return self


class ConflictReviewSettings(_Section):
    """The conflict-review protocol: what is reviewed, and the decision without a majority."""

    arbiter: Literal["rules", "llm"] = "rules"
    """What decides if no two reviewers agree: rules, or a further call."""
    flag_single_support: Flag = False
    """Also flag aspects of only one perspective, so that the reviewers decide about them."""


class DemoSettings(_Section):
    """Few-shot demos: their number, file and selection."""

    k: Examples = 0
    path: Text | None = None
    pick: Literal["similar", "random"] = "similar"

    @model_validator(mode="after")
    def _check_path(self) -> Self:
        if self.k and self.path is None:
            raise _conflict("k", "demos need demos.path, a labelled file that is not evaluated")
        return self


class FolderSettings(_Section):
    """A folder whose files replace the shipped files of the same name."""

    dir: Text | None = None


class AuxHfSettings(_Section):
    """A Hugging Face text classifier that runs after the graph, for metrics only."""

    enabled: Flag = False
    checkpoint: Text | None = None
    """A local folder or the name of a model."""
    labels: Mapping[str, str] = Field(default_factory=dict)
    """The polarities of its labels, if their names do not show it: `LABEL_0: negative`."""
    candidate_labels: tuple[Text, ...] = ("positive", "negative", "neutral")
    """The labels for a zero-shot (entailment) model."""
    hypothesis_template: Text = "The sentiment of this review is {}."
    """The sentence whose entailment is tested, `{}` for the candidate label."""

    @field_validator("candidate_labels")
    @classmethod
    def _check_candidates(cls, labels: tuple[str, ...]) -> tuple[str, ...]:
        if len(labels) < 2 or _repeated(labels):
            raise ValueError("must name at least two labels, each once")
        return labels

    @field_validator("hypothesis_template")
    @classmethod
    def _check_template(cls, template: str) -> str:
        if template.count("{}") != 1 or re.search(r"[{}]", template.replace("{}", "")):
            raise ValueError("must have one {} for the candidate label, and no other brace")
        return template

    @model_validator(mode="after")
    def _check_checkpoint(self) -> Self:
        if self.enabled and self.checkpoint is None:
            raise _conflict("enabled", "the classifier needs aux_hf.checkpoint")
        return self


class VoteSettings(_Section):
    """The voting baseline: one question, asked as many times as a debate makes calls."""

    n: Votes | None = None
    """The number of calls; default: as many as the debate would make."""
    threshold: Confidence = 0.5
    """The minimum share of calls that must contain a tuple."""
    temperature: Temperature = 0.7


class SelectiveSettings(_Section):
    """One call and the embedded analyzer; more calls only if the two differ.

    `absa ablate --fit` measures `threshold` and `trust` on labelled data. The defaults were
    measured on recorded answers of three models (`docs/lab-notes/second-opinion.md`).
    """

    extra_calls: Votes = 2
    """The number of further calls for a text on which the two differ."""
    temperature: Temperature = 0.7
    """The temperature of the further calls."""
    threshold: Confidence = 0.4
    """A tuple is kept if (1 - trust) x share of calls + trust x probability reaches this."""
    trust: Confidence | None = None
    """The weight of the analyzer. None: 0.62 in domains of its training data, 0.45 in others, and 1
    if a run finds the model too weak (`alone_below`)."""
    sample: Examples = 30
    """The number of texts per language and domain on which a run measures whether the model is too
    weak; 0: no measurement."""
    alone_below: Confidence = 0.7
    """If the model's estimated F1 is below this share of the analyzer's, the analyzer decides alone
    and the model is called only once."""


FROM_DATA = "from_data"
SHIPPED_CATEGORIES = ("restaurants", "laptops", "hotels", "products")


def _check_categories(value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
    if isinstance(value, str) and value not in (FROM_DATA, *SHIPPED_CATEGORIES):
        sets = ", ".join(SHIPPED_CATEGORIES)
        raise ValueError(f"expected a list of categories, {FROM_DATA}, or one of {sets}")
    if isinstance(value, tuple):
        if not value:
            raise ValueError("must list at least one category")
        if repeated := _repeated(tuple(name.casefold() for name in value)):
            raise ValueError(f"lists {', '.join(map(repr, repeated))} more than once")
    return value


class PipelineSettings(_Section):
    """The decision pipeline. If an `enable_*` is false, its nodes are not in the compiled graph."""

    protocol: Literal["debate", "conflict_review", "selective", "single", "vote"] = "debate"
    stage1: Literal["separate", "joint"] = "separate"
    """Stage 1 of `protocol: debate` asks two questions (`ate`, `atsa`) or one joint question
    (`extract`)."""
    enable_validator: Flag = True
    enable_stage2: Flag = True
    enable_debate: Flag = True
    enable_debate_override: Flag = True
    enable_moderator: Flag = True
    categories: Annotated[Text | tuple[Text, ...] | None, AfterValidator(_check_categories)] = None
    """The category set: a list, a shipped set (restaurants, laptops, hotels, products: NIKL's
    entity#attribute), or `from_data` for the categories of the data's gold. None: no categories."""
    max_text_chars: Positive = 100_000
    """The maximum length of a text in characters. A longer text is an error; in a batch only that
    text fails."""
    min_name_probability: Confidence = 0.4
    """The minimum token probability of an aspect's name, if the server returns token probabilities.
    `protocol: vote` counts answers instead."""
    debate: DebateSettings = DebateSettings()
    override_profile: Literal["t0", "t1", "t2"] = "t0"
    """The profile that provides missing values of `debate_override`.

    `absa.config.load_settings` fills them in. Settings built directly in Python always have t0's
    values, because the model does not read the file of profiles.
    """
    debate_override: OverrideSettings = OverrideSettings()
    moderator: ModeratorSettings = ModeratorSettings()
    vote: VoteSettings = VoteSettings()
    selective: SelectiveSettings = SelectiveSettings()
    memory: MemorySettings = MemorySettings()
    conflict_review: ConflictReviewSettings = ConflictReviewSettings()
    human_review: Literal["off", "on_conflict", "always"] = "off"
    """Whether a person is asked before the result is final: never, for doubtful texts, or for every
    text."""

    @field_validator("human_review", mode="before")
    @classmethod
    def _read_yaml_off(cls, value: object) -> object:
        # YAML 1.1 reads the word `off` as a boolean.
        return "off" if value is False else value

    @property
    def debates_contested(self) -> bool:
        """Whether only texts on which Stage 1 and the embedded analyzer differ are debated."""
        return self.enable_debate and self.debate.when == "contested"

    @property
    def asks_second_reader(self) -> bool:
        """Whether the embedded analyzer reads the text beside the model."""
        return self.protocol == "selective" or (
            self.protocol == "debate" and self.debates_contested
        )

    @property
    def debate_calls(self) -> int:
        """The number of calls of the debate with these settings."""
        stage1 = (1 if self.stage1 == "joint" else 2) + self.enable_validator
        debate = self.debate.rounds * len(self.debate.order) + 1 if self.enable_debate else 0
        stage2 = 2 + self.enable_validator if self.enable_stage2 else 0
        return stage1 + debate + stage2

    @property
    def vote_calls(self) -> int:
        """The number of joint calls: one, or those of a vote."""
        if self.protocol in ("single", "selective"):
            return 1
        return self.vote.n if self.vote.n is not None else self.debate_calls


class RoleSettings(_Section):
    """Model, server and parameters of one node; None means the backend's value."""

    model: Text | None = None
    base_url: BaseUrl | None = None
    temperature: Temperature | None = None
    seed: Seed | None = None
    max_tokens: Positive | None = None
    api_key_env: Variable | None = None
    api_key_keyring: KeyringEntry | None = None


class BackendSettings(_Section):
    """The backend. Settings name the place of an API key, never the key itself."""

    kind: Literal["offline", "openai", "replay"] = "offline"
    model: Text | None = None
    base_url: BaseUrl | None = None
    temperature: Temperature = 0.0
    seed: Seed = 0
    max_tokens: Positive | None = None
    """The maximum length of an answer in tokens; None: the server's default."""
    api_key_env: Variable = "OPENAI_API_KEY"
    """The environment variable with the API key."""
    api_key_keyring: KeyringEntry | None = None
    """The keyring entry of the API key: service/name."""
    timeout_s: Seconds = 60.0
    max_retries: Retries = 5
    max_concurrency: Parallel = 16
    requests_per_second: Rate | None = None
    """A rate limit, enforced by the client; None: unlimited."""
    allow_redirects: Flag = False
    """Whether texts may be sent to another server than `base_url` after a redirect."""
    path: Text | None = None
    """The recorded run that `replay` reads."""
    trust_model: Flag = False
    """Whether `offline` accepts a model folder whose manifest is missing or does not match. Native
    code reads the files, so use it only for folders from a source that you trust."""
    roles: Mapping[str, RoleSettings] = Field(default_factory=dict)

    @property
    def models(self) -> frozenset[str]:
        """The models that can be called."""
        roles = (role.model for node, role in self.roles.items() if node != SECOND_READER)
        return frozenset(model for model in (self.model, *roles) if model)

    def role(self, node: str) -> RoleSettings:
        """The effective values of a node: its own, else the backend's."""
        own = self.roles.get(node, RoleSettings())
        names = ("model", "base_url", "temperature", "seed", "max_tokens")
        shared = {name: getattr(self, name) for name in names if getattr(own, name) is None}
        return RoleSettings(**{**own.model_dump(), **shared, **self._key_of(own)})

    def _key_of(self, own: RoleSettings) -> dict[str, str | None]:
        """The place of a role's key. A key is sent only to the server that it was set for."""
        if own.api_key_env or own.api_key_keyring:
            source: RoleSettings | BackendSettings = own
        elif own.base_url in (None, self.base_url):
            source = self
        else:
            return {}
        return {"api_key_env": source.api_key_env, "api_key_keyring": source.api_key_keyring}

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if self.kind == "replay" and self.path is None:
            raise _conflict("kind", "'replay' needs backend.path, the recorded run to read")
        if self.kind == "openai" and self.model is None:
            raise _conflict("kind", "'openai' needs backend.model, the name of the model to ask")
        return self


class Settings(_Section):
    """All settings of a run."""

    pipeline: PipelineSettings = PipelineSettings()
    prompts: FolderSettings = FolderSettings()
    resources: FolderSettings = FolderSettings()
    demos: DemoSettings = DemoSettings()
    backend: BackendSettings = BackendSettings()
    aux_hf: AuxHfSettings = AuxHfSettings()
    wiring: WiringName | None = None
    """Your function, `module:function`, that returns a `Wiring` for these settings."""

    @model_validator(mode="before")
    @classmethod
    def _take_categories(cls, value: object) -> object:
        """Accept `categories` at the top level, too."""
        if not isinstance(value, Mapping) or "categories" not in value:
            return value
        pipeline = value.get("pipeline", {})
        if not isinstance(pipeline, Mapping) or pipeline.get("categories") is not None:
            return value
        rest = {key: part for key, part in value.items() if key != "categories"}
        return {**rest, "pipeline": {**pipeline, "categories": value["categories"]}}

    @model_validator(mode="after")
    def _check_second_reader(self) -> Self:
        if self.pipeline.asks_second_reader and self.backend.kind == "offline":
            selective = self.pipeline.protocol == "selective"
            what = "protocol selective" if selective else "a contested debate"
            why = (
                f"{what} compares a language model with the offline analyzer: set backend.kind to "
                "openai or replay"
            )
            raise _conflict("pipeline.protocol" if selective else "pipeline.debate.when", why)
        return self

    @model_validator(mode="after")
    def _check_roles(self) -> Self:
        if self.wiring is not None:  # the function can add agents
            return self
        nodes = {*MODEL_NODES, *self.pipeline.debate.speakers}
        if unknown := [node for node in self.backend.roles if node not in nodes]:
            names = ", ".join(map(repr, unknown))
            why = f"no node {names} asks a model; known: {', '.join(sorted(nodes))}"
            raise _conflict(f"backend.roles.{unknown[0]}", why)
        return self
