"""The analysis as a tool for agents: an MCP server with one tool, `analyze_review`."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

from absa import outcome
from absa.api import TextAnalyser
from absa.schemas.errors import BackendError, InputError
from absa.schemas.output import FinalOutput
from absa.schemas.settings import Settings

INSTRUCTIONS = (
    "Aspect-based sentiment analysis of customer reviews in Korean or English. Call analyze_review"
    " with one review at a time."
)
DESCRIPTION = """Find what a review praises and complains about.

Returns the label of the whole text, one entry for each aspect that is judged (its polarity, the
words of the text that show it, and a confidence from 0 to 1), and what the debate of the agents
changed. Use it for product, service and restaurant reviews in Korean or English. It does not
translate or summarise the text."""


class Aspect(BaseModel):
    """An aspect of the reviewed thing, as the text judges it."""

    aspect: str | None = Field(
        description="The words of the text that name the aspect; null if it is not named."
    )
    polarity: str = Field(description="positive, negative, neutral or mixed")
    category: str | None = Field(description="The category of the aspect; null without a set.")
    evidence: str | None = Field(description="The words of the text that show the polarity.")
    start: int | None = Field(description="First character of the aspect in the text, from 0.")
    end: int | None = Field(description="Character after the last one of the aspect.")
    confidence: float = Field(description="From 0 to 1.")


class Analysis(BaseModel):
    """What `analyze_review` returns."""

    label: str = Field(description="The sentiment of the whole text.")
    confidence: float = Field(description="Confidence of the label, from 0 to 1.")
    reason: str = Field(description="Why the text has this label, in one line.")
    lang: str = Field(description="The language the text was read as, such as ko or en.")
    aspects: list[Aspect]
    debate: list[str] = Field(
        description="Objections in the debate and what each changed, one per line; empty if none."
    )


def build_server(settings: Settings) -> MCPServer[None]:
    """The server; the models are loaded with the first review and kept."""
    server: MCPServer[None] = MCPServer(
        "absa", instructions=INSTRUCTIONS, version=version("absa-debate-graph"), log_level="ERROR"
    )
    analyser = TextAnalyser(settings)

    @server.tool(
        title="Analyze a review",
        description=DESCRIPTION,
        annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True),
        structured_output=True,
    )
    async def analyze_review(
        text: Annotated[str, Field(description="The review, as it was written.")],
        lang: Annotated[
            str | None, Field(description="Its language, such as ko or en; detected if left out.")
        ] = None,
        aspects: Annotated[
            list[str] | None,
            Field(description="Judge only these aspects instead of searching for aspects."),
        ] = None,
    ) -> Analysis:
        try:
            output = await analyser.aanalyze(text, lang=lang, given_aspects=aspects)
        except (InputError, BackendError) as error:
            # The agent can correct its call or tell its user: the message must reach it.
            raise ToolError(str(error)) from None
        return _analysis(output, settings)

    return server


def _analysis(output: FinalOutput, settings: Settings) -> Analysis:
    result = output.final_result
    return Analysis(
        label=result.label,
        confidence=result.confidence,
        reason=outcome.label_reason(output),
        lang=output.lang,
        aspects=[
            Aspect(
                aspect=a.aspect_term,
                polarity=a.polarity,
                category=a.category,
                evidence=a.evidence if a.is_grounded else None,
                start=a.span.start if a.span else None,
                end=a.span.end if a.span else None,
                confidence=a.confidence,
            )
            for a in result.final_aspects
        ],
        debate=outcome.debate(output, settings.pipeline.debate_override),
    )
