"""The live board's only style sheet: the theme's variables with fallbacks. The stored HTML does without it."""

STYLE = """<style>
.dk-board { padding: 8px 10px; border: 1px solid var(--jp-border-color1, #808080); border-radius: 4px;
  color: var(--jp-ui-font-color1, inherit); }
.dk-board .widget-html, .dk-board .jupyter-widget-html { height: auto; }
.dk-board .widget-html-content { line-height: 1.45 !important; font-size: var(--jp-widgets-font-size, 13px);
  color: var(--jp-ui-font-color1, inherit); align-self: stretch; width: 100%; }
.dk-board pre, .dk-board code { color: inherit; background: var(--jp-layout-color2, transparent); }
.dk-board a { color: var(--jp-content-link-color, #3b82b8); }
.dk-board .dk-column { border-top: 2px solid var(--jp-border-color1, #808080); padding: 3px 0 2px 0; }
.dk-board .dk-card { background: var(--jp-layout-color1, transparent); }
.dk-board .dk-card[open] { background: var(--jp-layout-color2, transparent); }
.dk-board summary:hover { background: var(--jp-layout-color2, transparent); }
.dk-board summary:focus-visible, .dk-board button:focus-visible, .dk-board a:focus-visible, .dk-board input:focus-visible,
.dk-board pre:focus-visible { outline: 2px solid var(--jp-brand-color1, #3b82b8); outline-offset: 1px; }
.dk-board .dk-card:target { outline: 2px solid var(--jp-brand-color1, #3b82b8); }
.dk-board .dk-fields { padding: 0 6px 6px 14px; display: none; }
.dk-board .dk-card-box:has(details[open]) .dk-fields { display: flex; }
@supports not selector(:has(*)) { .dk-board .dk-fields { display: flex; } }
</style>"""
