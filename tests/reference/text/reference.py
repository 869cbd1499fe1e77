"""What the reference libraries render, with the clock fixed."""

import datetime

from transformers.utils import chat_template_utils as ctu

from templates import DATE, SPECIAL


class _FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(DATE, datetime.timezone.utc).replace(tzinfo=None)


ctu.datetime = _FixedClock


def render(template, variables):
    """(text, None) or (None, error message)."""
    try:
        return ctu._compile_jinja_template(template).render(**variables), None
    except Exception as e:  # every error of the reference is an expected one here
        return None, f"{type(e).__name__}: {e}"


def render_chat(template, messages, tools, add_generation_prompt, extra):
    messages = [{k: v for k, v in m.items() if v is not None} for m in messages]
    try:
        variables = {**SPECIAL, **extra}
        out, _ = ctu.render_jinja_template([messages], tools=tools, documents=variables.pop("documents", None),
                                           chat_template=template, add_generation_prompt=add_generation_prompt,
                                           **variables)
        return out[0], None
    except Exception as e:
        return None, f"{type(e).__name__}: {e}"
