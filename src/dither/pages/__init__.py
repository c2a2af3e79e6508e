"""The page kit: every HTML page and every notebook cell of dither is made of these few parts.

`html` writes elements and escapes what is not markup, `page` puts sections together, `tables`,
`charts` and `plots` show numbers, `style` is the one style sheet. No script, nothing fetched.
"""
