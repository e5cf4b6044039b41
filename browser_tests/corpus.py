"""Texts that become something else in a careless writer: markup, scripts, formulas, escapes. Each carries its number."""

from __future__ import annotations

_HTML = (
    "<script>window.pwned={n}</script>",
    "<img src=x onerror=window.pwned={n}>",
    "<svg onload=window.pwned={n}>",
    "<svg><script>window.pwned={n}</script></svg>",
    "<svg><animate onbegin=window.pwned={n} attributeName=x dur=1s>",
    "<iframe srcdoc='<script>parent.pwned={n}</script>'></iframe>",
    "<object data='javascript:window.pwned={n}'></object>",
    "<a href='javascript:window.pwned={n}' autofocus onfocus=window.pwned={n}>x</a>",
    "<details open ontoggle=window.pwned={n}>",
    "<body onload=window.pwned={n}>",
    "<input autofocus onfocus=window.pwned={n}>",
    "<style>@import '//x.invalid/{n}.css';</style>",
    "<link rel=stylesheet href='//x.invalid/{n}.css'>",
    "<meta http-equiv=refresh content='0;url=//x.invalid/{n}'>",
    "<base href='//x.invalid/{n}'>",
    "<form action='//x.invalid/{n}'><button autofocus>x</button></form>",
    "--><script>window.pwned={n}</script><!--",
    "</style><script>window.pwned={n}</script>",
    "</script><script>window.pwned={n}</script>",
    "</title><script>window.pwned={n}</script>",
    "</textarea><img src=x onerror=window.pwned={n}>",
    "\" onmouseover=window.pwned={n} x=\"",
    "' autofocus onfocus=window.pwned={n} '",
    "&lt;script&gt;window.pwned={n}&lt;/script&gt;",
    "&#60;img src=x onerror=window.pwned={n}&#62;",
    "{{{{ [].__class__ }}}}{n}",
    "{{% raw %}}{n}",
    "${{window.pwned={n}}}",
    "<math><mtext><img src=x onerror=window.pwned={n}></mtext></math>",
    "<noscript><p title='</noscript><img src=x onerror=window.pwned={n}>'>",
)
_OTHER = (
    "[{n}](javascript:alert({n}))",
    "![{n}](//x.invalid/{n}.png)",
    "| {n} | <b>x</b> |",
    "```\n{n}\n```",
    "# {n}\n- [ ] x",
    "<!-- {n} -->",
    "@everyone #{n}",
    "=HYPERLINK(\"//x.invalid/{n}\")",
    "+cmd|' /C calc'!A{n}",
    "-2+3+cmd|x!{n}",
    "@SUM({n})",
    "\x1b[2J\x1b[31m{n}",
    "\x1b]0;{n}\x07",
    "\x1b]8;;//x.invalid/{n}\x07x\x1b]8;;\x07",
    "\u202e{n}gpj.exe",
    "\u2066{n}\u2069",
    "a\u200b{n}\ufeff",
    "{n}\x00tail",
    "{n}\r\nset-cookie: x",
    "]]>{n}<![CDATA[",
)


def injections() -> list[str]:
    """300 texts: thirty kinds of HTML and SVG and twenty of Markdown, spreadsheets and terminals, six times each, every one different."""
    kinds = (*_HTML, *_OTHER)
    return [kinds[n % len(kinds)].format(n=n + 1) for n in range(300)]
