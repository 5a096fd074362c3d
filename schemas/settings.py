"""Settings of a run: what is switched on, with which thresholds, answered by which backend.

Every key accepted here does something, except the note `debate.max_rounds`. Reading files is
`absa.config`'s job.
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
"""The node that asks the embedded analyser, whoever answers for the others. It costs no call."""

MODEL_NODES = (
    "extract",
    SECOND_READER,
    "ate",
    "atsa",
    "validator",
    "judge",
    "ate_review",
    "atsa_review",
    "validator_review",
    "p_neg",
    "p_imp",
    "p_lit",
    "review_a",
    "review_b",
    "review_c",
    "arbiter",
)
"""Nodes that call a model, besides the debate's speakers."""

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
"""Nodes that apply rules, besides those of the gate's verdicts (`apply_…`, `skip_…`)."""

RESERVED_NAMES = STATE_KEYS | {*MODEL_NODES, *RULE_NODES}
"""Names a persona may not take: it is a node, and LangGraph refuses the names of state keys."""

MAX_CONCURRENCY = 10_000
"""Calls, or samples, in flight."""

# Strict, because a lenient parse would read the text "no" as a flag or 1 as true.
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[int, Field(strict=True, ge=1)]
# Far above any use; a slip of the keyboard must not cost a machine or an account.
Rounds = Annotated[int, Field(strict=True, ge=1, le=100)]
Votes = Annotated[int, Field(strict=True, ge=1, le=1_000)]
Examples = Annotated[int, Field(strict=True, ge=0, le=1_000)]
Retries = Annotated[int, Field(strict=True, ge=0, le=100)]
Parallel = Annotated[int, Field(strict=True, ge=1, le=MAX_CONCURRENCY)]
Seconds = Annotated[float, Field(strict=True, gt=0, le=86_400, allow_inf_nan=False)]
Weight = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Confidence = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
Temperature = Annotated[float, Field(strict=True, ge=0, le=2, allow_inf_nan=False)]


def _refuse_key(text: str) -> str:
    # Settings are written into every run's manifest. The text itself is not repeated here.
    if LOOKS_LIKE_KEY.search(text):
        raise ValueError(
            "this looks like a key, and keys do not belong in settings; "
            "set the environment variable OPENAI_API_KEY"
        )
    return text


Words = Annotated[str, StringConstraints(strict=True, strip_whitespace=True, min_length=1)]
Text = Annotated[Words, AfterValidator(_refuse_key)]


_SEEDS = 2**63


def _check_seed(seed: int) -> int:
    # Servers and the journal keep a seed in 64 bits.
    if not 0 <= seed < _SEEDS:
        raise ValueError(f"expected a whole number from 0 to 2^63 - 1, got {seed}")
    return seed


def _check_base_url(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ValueError(f"not a URL: {error}") from None
    if parts.username or parts.password or parts.query:
        # Settings are written into every run's manifest. The URL itself is not repeated here.
        raise ValueError("credentials and parameters do not belong in a URL; use OPENAI_API_KEY")
    if parts.scheme not in ("http", "https") or not parts.netloc:
        # A key is typed here now and then: only what looks like an address is repeated.
        is_address = ":" in url and "@" not in url and not may_be_key(url)
        shown = repr(url) if is_address else f"a text of {len(url)} characters"
        raise ValueError(f"expected a URL such as http://localhost:8000/v1, got {shown}")
    return url.rstrip("/")


def _check_variable(name: str) -> str:
    # Not repeated: whoever puts the key itself here must not find it in a message or a manifest.
    if not re.fullmatch(r"[A-Z][A-Z0-9_]{0,63}", name):
        raise ValueError("expected the name of an environment variable, such as OPENAI_API_KEY")
    return name


def _check_keyring_entry(entry: str) -> str:
    service, _, name = entry.partition("/")
    if not service or not name:
        raise ValueError("expected a keyring entry as service/name, such as absa/OPENAI_API_KEY")
    return entry


def _check_persona_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"a persona's key must be snake_case (a-z, 0-9, _), got {name!r}")
    if name in RESERVED_NAMES or name.startswith(("apply_", "skip_")):
        raise ValueError(f"{name!r} is the name of another node or state key; choose another")
    return name


Seed = Annotated[int, Field(strict=True), AfterValidator(_check_seed)]


def _check_wiring_name(name: str) -> str:
    if not re.fullmatch(r"[\w.]+:\w+", name):
        raise ValueError(f"expected module:function, such as my_graph:my_wiring, got {name!r}")
    return name


WiringName = Annotated[Text, AfterValidator(_check_wiring_name)]
BaseUrl = Annotated[Text, AfterValidator(_check_base_url)]
Variable = Annotated[Words, AfterValidator(_check_variable)]
KeyringEntry = Annotated[Text, AfterValidator(_check_keyring_entry)]
PersonaName = Annotated[str, AfterValidator(_check_persona_name)]


def _conflict(key: str, why: str) -> PydanticCustomError:
    """An error about several keys, blamed on `key` (dotted, relative to the model)."""
    return PydanticCustomError("conflict", "{why}", {"key": key, "why": why})


def _repeated(names: tuple[str, ...]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


class _Section(BaseModel):
    # Pydantic's own message would show the value, which may be a key in the wrong place.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Persona(_Section):
    """A speaker of the debate, as its prompt introduces it."""

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
"""The speakers of each debate protocol, in the order in which they speak."""

_DEFAULT_ROUNDS: Mapping[str, int] = {"patch": 1, "persona": 2}


class HintWeights(_Section):
    """How much one proposed edit counts in the override gate, by operation.

    `final_patch` is the weight of a polarity or drop edit that the judge took over.
    """

    set_polarity: Weight = 0.5
    confirm_tuple: Weight = 0.5
    drop_tuple: Weight = 0.8
    final_patch: Weight = 0.8
    set_aspect_ref: Weight = 0.0
    merge_tuples: Weight = 0.0
    second_reader: Weight = 0.8
    """The embedded analyser's tuples (`debate.when: contested`), times their probability."""
    set_category: Weight = 0.0


class InjectionSettings(_Section):
    """When memory speaks in the debate: to `cj` and the judge, at two of four signs of deadlock."""

    strategy: Literal["during_debate_one_shot"] = "during_debate_one_shot"
    trigger: Literal["deadlock_obs2of4"] = "deadlock_obs2of4"
    allow_multiple_injections: Flag = False


class DebateSettings(_Section):
    """When the debate is held, who speaks in which order, how often, and with what weight."""

    protocol: DebateProtocol = "patch"
    when: Literal["always", "contested"] = "always"
    """`contested`: only about texts on which Stage 1 and the embedded analyser differ, or in which
    the Validator sees a risk; in one round."""
    rounds: Rounds = 1
    max_rounds: Rounds | None = None
    """A note of an experiment's conditions: recorded with the run; `rounds` are held."""
    # Before `order`, whose check needs it.
    personas: Mapping[PersonaName, Persona] = Field(default_factory=dict)
    order: tuple[str, ...] = tuple(DEFAULT_PERSONAS["patch"])
    hint_weights: HintWeights = HintWeights()
    injection: InjectionSettings = InjectionSettings()

    @property
    def speakers(self) -> Mapping[str, Persona]:
        """All known personas by key: the default three, overridden and extended by `personas`."""
        return {**DEFAULT_PERSONAS[self.protocol], **self.personas}

    @model_validator(mode="before")
    @classmethod
    def _fill_in_protocol(cls, value: object) -> object:
        """Rounds and order are those of the protocol, unless they are given."""
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
        """Let a user change one field of a default persona without repeating the others."""
        if not isinstance(value, Mapping):
            return value
        default = DEFAULT_PERSONAS[info.data.get("protocol", "patch")]
        return {
            key: {**default[key].model_dump(), **given}
            if key in default and isinstance(given, Mapping)
            else given
            for key, given in value.items()
        }

    @field_validator("order")
    @classmethod
    def _check_order(cls, order: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if not order:
            raise ValueError("must name at least one persona")
        if repeated := _repeated(order):
            # One node per speaker: two turns in one round would need two nodes.
            raise ValueError(f"names {', '.join(map(repr, repeated))} more than once")
        if "personas" in info.data:
            default = DEFAULT_PERSONAS[info.data.get("protocol", "patch")]
            known = {**default, **info.data["personas"]}
            if unknown := [name for name in order if name not in known]:
                names = ", ".join(map(repr, unknown))
                raise ValueError(f"unknown persona {names}; known: {', '.join(sorted(known))}")
        return order


class EvWeights(_Section):
    """Weights of the components of the adoption score; only available ones are averaged."""

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
    """Thresholds of the override gate and of adopting Stage 2. The defaults are profile t0."""

    min_total: Weight = 1.6
    min_margin: Weight = 0.8
    min_target_conf: Confidence = 0.7
    ev_threshold: Weight = 0.5
    l3_conservative: Flag = True
    max_overrides_per_sample: Count = 1
    allow_drop: Flag = False
    ev_weights: EvWeights = EvWeights()


class ModeratorSettings(_Section):
    """Which of the Moderator's rules are in force; they always run in their own order."""

    rules: tuple[RuleName, ...] = RULE_NAMES

    @field_validator("rules")
    @classmethod
    def _check_rules(cls, rules: tuple[RuleName, ...]) -> tuple[RuleName, ...]:
        if repeated := _repeated(rules):
            raise ValueError(f"lists {', '.join(map(repr, repeated))} more than once")
        # One spelling per set, so that equal settings compare and hash equal.
        return tuple(sorted(rules, key=RULE_NAMES.index))


class MemorySettings(_Section):
    """Episodic memory: `silent` recalls and shows nobody, the control for `on`.

    `store` is where episodes are kept: in this process, in `path` (a folder), or in the PostgreSQL
    database that the environment variable ABSA_MEMORY_URL names.
    """

    condition: Literal["off", "silent", "on"] = "off"
    store: Literal["memory", "sqlite", "postgres"] = "memory"
    path: str | None = None
    # Also remember, and recall, cases of a split that is being evaluated.
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
    """The conflict-review protocol: what is reviewed, and who decides without a majority."""

    arbiter: Literal["rules", "llm"] = "rules"
    """Who decides where no two reviewers agree: rules, or a further call."""
    flag_single_support: Flag = False
    """Flag an aspect that only one perspective found, so that the reviewers decide about it."""


class DemoSettings(_Section):
    """Few-shot demos: how many, from which file, and how they are chosen."""

    k: Examples = 0
    path: Text | None = None
    pick: Literal["similar", "random"] = "similar"

    @model_validator(mode="after")
    def _check_path(self) -> Self:
        if self.k and self.path is None:
            raise _conflict("k", "demos need demos.path, a labelled file that is not evaluated")
        return self


class FolderSettings(_Section):
    """A folder of your own whose files take the place of the shipped ones of the same name."""

    dir: Text | None = None


class AuxHfSettings(_Section):
    """A Hugging Face text classifier that is asked after the graph, for metrics only."""

    enabled: Flag = False
    checkpoint: Text | None = None
    """A local folder or the name of a model."""
    labels: Mapping[str, str] = Field(default_factory=dict)
    """What its labels mean, where their names do not say: `LABEL_0: negative`."""
    candidate_labels: tuple[Text, ...] = ("positive", "negative", "neutral")
    """What a model trained on entailment chooses from (zero-shot)."""
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
    """The baseline that spends a debate's calls on asking one question several times."""

    n: Votes | None = None
    """How many calls; by default as many as the debate would make."""
    threshold: Confidence = 0.5
    """The share of the calls that must have found a tuple."""
    temperature: Temperature = 0.7


class SelectiveSettings(_Section):
    """One call and the embedded analyser; more calls only where the two differ.

    `absa ablate --fit` measures `threshold` and `trust` on labelled data. The defaults were
    measured on recorded answers of three models (`docs/lab-notes/second-opinion.md`).
    """

    extra_calls: Votes = 2
    """How many more calls are made for a text on which the two differ."""
    temperature: Temperature = 0.7
    """The temperature of these calls."""
    threshold: Confidence = 0.4
    """A tuple stays if (1 - trust) x share of the calls + trust x probability reaches this."""
    trust: Confidence | None = None
    """The weight of the analyser. None: 0.62 in a domain that the analyser was trained on and 0.45
    elsewhere, or 1 where a run finds the model too weak (`alone_below`)."""
    sample: Examples = 30
    """On how many texts of each language and domain a run measures whether the model is too weak;
    0: it does not."""
    alone_below: Confidence = 0.7
    """If the model's estimated F1 is below this share of the analyser's, the analyser decides alone
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
    """The decision pipeline. Each `enable_*` takes its nodes out of the compiled graph."""

    protocol: Literal["debate", "conflict_review", "selective", "single", "vote"] = "debate"
    stage1: Literal["separate", "joint"] = "separate"
    """Two questions (`ate`, `atsa`) or one joint question (`extract`) find the aspects and their
    polarities in `protocol: debate`."""
    enable_validator: Flag = True
    enable_stage2: Flag = True
    enable_debate: Flag = True
    enable_debate_override: Flag = True
    enable_moderator: Flag = True
    categories: Annotated[Text | tuple[Text, ...] | None, AfterValidator(_check_categories)] = None
    """The categories that a tuple may have: a list, a shipped set (restaurants, laptops, hotels,
    products: NIKL's entity#attribute), or `from_data`, those of the data's gold. None: tuples have
    no categories."""
    max_text_chars: Positive = 100_000
    """The longest text in characters. A longer one is refused; in a batch it fails alone."""
    min_name_probability: Confidence = 0.4
    """How likely a model must have held the name of an aspect that it lists, where its server tells
    the probabilities of tokens; `protocol: vote` counts answers instead."""
    debate: DebateSettings = DebateSettings()
    override_profile: Literal["t0", "t1", "t2"] = "t0"
    """Where the values of `debate_override` that were not given explicitly come from.

    `absa.config.load_settings` fills them in. A model built directly in Python has t0's values
    whatever stands here: it cannot read the file of profiles.
    """
    debate_override: OverrideSettings = OverrideSettings()
    moderator: ModeratorSettings = ModeratorSettings()
    vote: VoteSettings = VoteSettings()
    selective: SelectiveSettings = SelectiveSettings()
    memory: MemorySettings = MemorySettings()
    conflict_review: ConflictReviewSettings = ConflictReviewSettings()
    human_review: Literal["off", "on_conflict", "always"] = "off"
    """Whether a person is asked before the result is final: where the agents left a doubt, or
    about every text."""

    @field_validator("human_review", mode="before")
    @classmethod
    def _read_yaml_off(cls, value: object) -> object:
        # YAML 1.1 reads the word `off` as a boolean.
        return "off" if value is False else value

    @property
    def debates_contested(self) -> bool:
        """Whether a debate is held only where Stage 1 and the embedded analyser differ."""
        return self.enable_debate and self.debate.when == "contested"

    @property
    def asks_second_reader(self) -> bool:
        """Whether the embedded analyser reads the text beside the model."""
        return self.protocol == "selective" or (
            self.protocol == "debate" and self.debates_contested
        )

    @property
    def debate_calls(self) -> int:
        """How many calls the debate makes with these settings."""
        stage1 = (1 if self.stage1 == "joint" else 2) + self.enable_validator
        debate = self.debate.rounds * len(self.debate.order) + 1 if self.enable_debate else 0
        stage2 = 2 + self.enable_validator if self.enable_stage2 else 0
        return stage1 + debate + stage2

    @property
    def vote_calls(self) -> int:
        """How many times the joint question is asked: once, or as often as a vote needs."""
        if self.protocol in ("single", "selective"):
            return 1
        return self.vote.n if self.vote.n is not None else self.debate_calls


class RoleSettings(_Section):
    """What one node asks its model with; None takes the backend's own value."""

    model: Text | None = None
    base_url: BaseUrl | None = None
    temperature: Temperature | None = None
    seed: Seed | None = None
    max_tokens: Positive | None = None
    api_key_env: Variable | None = None
    api_key_keyring: KeyringEntry | None = None


class BackendSettings(_Section):
    """Who answers the nodes. Settings say where a key is to be found, never the key."""

    kind: Literal["offline", "openai", "replay"] = "offline"
    model: Text | None = None
    base_url: BaseUrl | None = None
    temperature: Temperature = 0.0
    seed: Seed = 0
    max_tokens: Positive | None = None
    """The longest answer, in tokens; None leaves it to the server."""
    api_key_env: Variable = "OPENAI_API_KEY"
    """The environment variable that holds the key."""
    api_key_keyring: KeyringEntry | None = None
    """Where the keyring has it: service/name."""
    timeout_s: Seconds = 60.0
    max_retries: Retries = 5
    max_concurrency: Parallel = 16
    requests_per_second: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] | None = (
        None
    )
    """A limit of the server, kept at the client; None for none."""
    allow_redirects: Flag = False
    """Whether texts may be sent on to another server than that of `base_url`."""
    path: Text | None = None
    """The recorded run that `replay` reads."""
    trust_model: Flag = False
    """Whether `offline` takes a model folder without a manifest, or with files that differ from
    theirs. What reads a model is native code: only for a folder whose maker you trust."""
    roles: Mapping[str, RoleSettings] = Field(default_factory=dict)

    @property
    def models(self) -> frozenset[str]:
        """The models that may be asked."""
        roles = (role.model for node, role in self.roles.items() if node != SECOND_READER)
        return frozenset(model for model in (self.model, *roles) if model)

    def role(self, node: str) -> RoleSettings:
        """What a node asks with: its own values where given, else the backend's."""
        own = self.roles.get(node, RoleSettings())
        names = ("model", "base_url", "temperature", "seed", "max_tokens")
        shared = {name: getattr(self, name) for name in names if getattr(own, name) is None}
        return RoleSettings(**{**own.model_dump(), **shared, **self._key_of(own)})

    def _key_of(self, own: RoleSettings) -> dict[str, str | None]:
        """Where a role's key is: a key goes to the server it was named for and to no other."""
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
    """A function of your own, `module:function`, from these settings to a `Wiring`."""

    @model_validator(mode="before")
    @classmethod
    def _take_categories(cls, value: object) -> object:
        """`categories` may stand at the top too."""
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
                f"{what} compares a language model with the offline analyser: set backend.kind to "
                "openai or replay"
            )
            raise _conflict("pipeline.protocol" if selective else "pipeline.debate.when", why)
        return self

    @model_validator(mode="after")
    def _check_roles(self) -> Self:
        if self.wiring is not None:  # it may add agents
            return self
        known = {*MODEL_NODES, *self.pipeline.debate.speakers}
        if unknown := [node for node in self.backend.roles if node not in known]:
            names = ", ".join(map(repr, unknown))
            why = f"no node {names} asks a model; known: {', '.join(sorted(known))}"
            raise _conflict(f"backend.roles.{unknown[0]}", why)
        return self
