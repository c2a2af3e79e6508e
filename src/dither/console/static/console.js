/* What the console does with scripts. Everything can be read, and asked, without them. */
"use strict";
(function () {
  /* The editor: names of the catalog and clauses, as the field's own attribute lists them. */
  function startEditor(area) {
    if (!window.CodeMirror) { return; }
    var offered = JSON.parse(area.dataset.completions);
    var editor = window.CodeMirror.fromTextArea(area, {
      mode: "text/x-sql", lineWrapping: true, viewportMargin: Infinity, inputStyle: "contenteditable",
      screenReaderLabel: "Question in SQL",
      extraKeys: { "Ctrl-Space": "autocomplete", Tab: false, "Shift-Tab": false },
      hintOptions: { tables: offered.tables, completeSingle: false }
    });
    var field = editor.getInputField();
    field.setAttribute("aria-label", "Question in SQL");
    field.setAttribute("role", "textbox");
    field.setAttribute("aria-multiline", "true");
    field.setAttribute("aria-describedby", "sql-help");
    editor.on("change", function () {
      editor.save();
      area.dispatchEvent(new Event("input", { bubbles: true }));
    });
  }

  /* A slider with a scale of powers beside the field of the price. */
  function startSlider(slider) {
    var amount = document.getElementById("amount");
    var choice = document.getElementById("by");
    var box = slider.closest(".slider");
    function follow() {
      box.hidden = choice.value !== "epsilon";
      var value = Number(amount.value);
      if (value > 0) { slider.value = String(Math.log10(value)); }
      slider.setAttribute("aria-valuetext", "epsilon " + amount.value);
    }
    slider.addEventListener("input", function () {
      amount.value = String(Number(Math.pow(10, Number(slider.value)).toPrecision(2)));
      slider.setAttribute("aria-valuetext", "epsilon " + amount.value);
      amount.dispatchEvent(new Event("input", { bubbles: true }));
    });
    amount.addEventListener("input", follow);
    choice.addEventListener("change", follow);
    follow();
  }

  /* A link of `dither serve`: what stands after # is sent to no server, so the page sends it. */
  function openLink(form) {
    var match = /^#token=([A-Za-z0-9-]+)$/.exec(window.location.hash);
    if (!match) { return; }
    history.replaceState(null, "", window.location.pathname);
    form.elements.token.value = match[1];
    form.submit();
  }

  /* A button that copies the text beside it. */
  function addCopyButton(box) {
    var button = document.createElement("button");
    button.type = "button";
    button.className = "secondary";
    button.textContent = "Copy";
    button.addEventListener("click", function () {
      navigator.clipboard.writeText(box.querySelector("pre").textContent).then(function () {
        button.textContent = "Copied";
      });
    });
    box.appendChild(button);
  }

  document.addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll("textarea[data-completions]").forEach(startEditor);
    document.querySelectorAll("#slider").forEach(startSlider);
    document.querySelectorAll("form[data-token-from-fragment]").forEach(openLink);
    document.querySelectorAll(".copy").forEach(addCopyButton);
  });
})();
