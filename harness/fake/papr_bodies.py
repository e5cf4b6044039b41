"""Request bodies and queries of Papr Memory API v1, typed as its document types them. Fields that it does not name are accepted and unused.

Strict: a number is no text and a truth value no number. What may be null is None when it is left out, too.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

MOST_CONTENT_BYTES: Final = 15_000
CATEGORIES: Final = {"user": ("preference", "task", "goal", "facts", "context"), "assistant": ("skills", "learning")}

Role = Literal["user", "assistant"]
MemoryType = Literal["text", "code_snippet", "document"]
Texts = str | list[str] | None
Flag = Annotated[bool, Field(strict=False)]
"""In a query everything is text: true, false, 1, 0."""
Results = Annotated[int, Field(ge=10, le=50, strict=False)]


class Body(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, hide_input_in_errors=True)


class Metadata(Body):
    """Any further field is kept as it is. The document spells some names with a blank in one place and without in another."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, hide_input_in_errors=True, populate_by_name=True)

    role: Role | None = None
    category: str | None = None
    user_id: str | None = None
    external_user_id: str | None = None
    external_user_read_access: list[str] | None = None
    external_user_write_access: list[str] | None = None
    createdAt: str | None = None
    conversationId: str | None = None
    location: str | None = None
    sourceUrl: str | None = None
    topics: Texts = None
    emoji_tags: Texts = None
    emotion_tags: Texts = None
    emoji_tags_spaced: Texts = Field(default=None, alias="emoji tags")
    emotion_tags_spaced: Texts = Field(default=None, alias="emotion tags")
    hierarchical_structures: str | list[Any] | None = None
    customMetadata: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _category_fits_role(self) -> Metadata:
        allowed = CATEGORIES[self.role] if self.role else tuple(each for names in CATEGORIES.values() for each in names)
        if self.category is not None and self.category not in allowed:
            raise ValueError(f"a category of {self.role or 'any role'} is one of {', '.join(allowed)}")
        return self

    def plain(self) -> dict[str, Any]:
        """As it was sent."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class Context(Body):
    role: Role
    content: str


class Relationship(Body):
    relation_type: str
    related_item_id: str | None = None
    related_item_type: str | None = None
    relationship_type: Literal["previous_memory_item_id", "all_previous_memory_items", "link_to_id"] | None = None
    metadata: dict[str, Any] | None = None


class GraphNode(Body):
    id: str
    label: str
    properties: dict[str, Any]


class GraphEdge(Body):
    relationship_type: str
    source_node_id: str
    target_node_id: str
    properties: dict[str, Any] | None = None


class ManualGraph(Body):
    nodes: list[GraphNode]
    relationships: list[GraphEdge] | None = None

    @model_validator(mode="after")
    def _edges_have_ends(self) -> ManualGraph:
        known = {node.id for node in self.nodes}
        if any({edge.source_node_id, edge.target_node_id} - known for edge in self.relationships or ()):
            raise ValueError("a relationship names a node that is not there")
        return self


class Override(Body):
    nodeLabel: str
    set: dict[str, Any]
    match: dict[str, Any] | None = None


class AutoGraph(Body):
    schema_id: str | None = None
    property_overrides: list[Override] | None = None


class Graph(Body):
    mode: Literal["auto", "manual"] = "auto"
    auto: AutoGraph | None = None
    manual: ManualGraph | None = None


class Tenancy(Body):
    organization_id: str | None = None
    namespace_id: str | None = None


class Item(Tenancy):
    """One memory to add. The users beside the metadata are not in the document; the vendor's own client sends them there."""

    content: str
    type: MemoryType = "text"
    metadata: Metadata | None = None
    context: list[Context] | None = None
    relationships_json: list[Relationship] | None = None
    graph_generation: Graph | None = None
    user_id: str | None = None
    external_user_id: str | None = None


class Update(Tenancy):
    content: str | None = None
    type: MemoryType | None = None
    metadata: Metadata | None = None
    context: list[Context] | None = None
    relationships_json: list[Relationship] | None = None


class Batch(Tenancy):
    memories: Annotated[list[Item], Field(min_length=1, max_length=50)]
    user_id: str | None = None
    external_user_id: str | None = None
    graph_generation: Graph | None = None
    batch_size: Annotated[int, Field(ge=1, le=50)] | None = 10
    webhook_url: str | None = None
    webhook_secret: str | None = None


class Pattern(Body):
    source_label: str
    relationship_type: str
    target_label: str
    direction: str = "->"


class Filter(Body):
    node_type: str
    property_name: str
    operator: str
    value: str | list[str] | float | int | bool


class SearchOverride(Body):
    pattern: Pattern
    filters: list[Filter] | None = None
    return_properties: list[str] | None = None


class Search(Tenancy):
    query: str
    rank_results: bool = False
    enable_agentic_graph: bool = False
    user_id: str | None = None
    external_user_id: str | None = None
    schema_id: str | None = None
    simple_schema_mode: bool = False
    metadata: Metadata | None = None
    search_override: SearchOverride | None = None


class Nothing(Body):
    pass


class AddQuery(Body):
    skip_background_processing: Flag = False


class DeleteQuery(Body):
    skip_parse: Flag = False


class DeleteAllQuery(DeleteQuery):
    user_id: str | None = None
    external_user_id: str | None = None


class SearchQuery(Body):
    max_memories: Results = 20
    max_nodes: Results = 15
