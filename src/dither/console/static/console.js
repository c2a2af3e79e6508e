/* What the console does with scripts. Everything can be read, and asked, without them. */
"use strict";
(function () {
  /* What may follow the cursor: columns of a table after its dot, else names and clauses. */
  function listHints(cm, offered) {
    var cursor = cm.getCursor();
    var before = cm.getLine(cursor.line).slice(0, cursor.ch);
    var match = /(?:([A-Za-z_][A-Za-z0-9_]*)\.)?([A-Za-z_][A-Za-z0-9_]*)?$/.exec(before);
    var word = match[2] || "";
    var names = match[1] ? offered.tables[match[1]] || [] : [];
    if (!match[1]) {
      Object.keys(offered.tables).forEach(function (table) {
        names = names.concat([table], offered.tables[table]);
      });
      names = names.concat(offered.clauses);
    }
    var fitting = names.filter(function (name, index) {
      return names.indexOf(name) === index && name.toLowerCase().indexOf(word.toLowerCase()) === 0;
    });
    var start = { line: cursor.line, ch: cursor.ch - word.length };
    return { list: fitting, from: start, to: cursor };
  }

  /* The editor: names of the catalog and clauses, as the field's own attribute lists them. */
  function startEditor(area) {
    if (!window.CodeMirror) { return; }
    var offered = JSON.parse(area.dataset.completions);
    var editor = window.CodeMirror.fromTextArea(area, {
      mode: "text/x-sql", lineWrapping: true, viewportMargin: Infinity, inputStyle: "contenteditable",
      screenReaderLabel: "Question in SQL",
      extraKeys: { "Ctrl-Space": "autocomplete", Tab: false, "Shift-Tab": false },
      hintOptions: { hint: function (cm) { return listHints(cm, offered); }, completeSingle: false }
    });
    var marks = [];
    function showMarks() {
      marks.forEach(function (mark) { mark.clear(); });
      marks = [];
      var panel = document.querySelector("#preview [data-marks=yes]");
      if (!panel) { return; }
      var letters = Array.from(editor.getValue());
      function find(count) { return editor.posFromIndex(letters.slice(0, count).join("").length); }
      var ends = [find(Number(panel.dataset.start)), find(Number(panel.dataset.end))];
      marks.push(editor.markText(ends[0], ends[1], { className: "refused-text" }));
    }
    document.body.addEventListener("htmx:afterSettle", showMarks);
    showMarks();
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
    if (form.dataset.tokenFromFragment === "send") { form.submit(); }
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
