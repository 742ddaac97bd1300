"""What every part of a recipe's schema is made of: sections that refuse what they do not know, and kinds of numbers."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(gt=0, lt=2**32)]
NonNegative = Annotated[int, Field(ge=0, lt=2**32)]  # what numpy takes for a seed
Size = Annotated[int, Field(gt=0, le=2**16)]  # a typing error must not ask for all memory
Fraction = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=1e6)]
Decay = Annotated[float, Field(ge=0, lt=1)]
Number = Annotated[float, Field(allow_inf_nan=False)]


class Section(BaseModel):
    """A group of fields: unknown keys and silent type changes are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)
