// What pages do beyond being read: theme, drawer, tabs, copying code, finding things. A classic script, so that it
// works from file://. Without it every page still reads in full.
(function () {
  "use strict";
  var root = document.documentElement;
  var body = document.body;

  function each(selector, act, within) {
    Array.prototype.forEach.call((within || document).querySelectorAll(selector), act);
  }
  function make(tag, properties, parent) {
    var element = Object.assign(document.createElement(tag), properties);
    if (parent) parent.appendChild(element);
    return element;
  }

  // Theme: the system's until the reader chooses; the choice is remembered where storage is allowed.
  each("button.theme", function (button) {
    button.addEventListener("click", function () {
      var dark = root.dataset.theme
        ? root.dataset.theme === "dark"
        : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      try { localStorage.setItem("course-theme", root.dataset.theme); } catch (error) { /* lasts for this page only */ }
    });
  });

  // The drawer with the chapters, on narrow screens.
  each("button.menu", function (button) {
    var sidebar = document.getElementById("sidebar");
    function open(yes) {
      sidebar.classList.toggle("open", yes);
      button.setAttribute("aria-expanded", String(yes));
    }
    button.addEventListener("click", function () { open(!sidebar.classList.contains("open")); });
    document.addEventListener("keydown", function (event) {
      if (event.key === "Escape" && sidebar.classList.contains("open")) { open(false); button.focus(); }
    });
    document.getElementById("content").addEventListener("click", function () { open(false); });
  });

  // Which section of the contents is being read.
  var links = {};
  each(".toc a", function (link) { links[decodeURIComponent(link.hash.slice(1))] = link; });
  var sections = Object.keys(links).map(function (id) { return document.getElementById(id); }).filter(Boolean);
  function reading() {
    return sections.filter(function (section) { return section.getBoundingClientRect().top < innerHeight * 0.3; }).pop();
  }
  if (sections.length && "IntersectionObserver" in window) {
    var spy = new IntersectionObserver(function () {
      var current = reading();
      each(".toc a", function (link) { link.classList.toggle("here", Boolean(current) && link === links[current.id]); });
    }, { rootMargin: "0px 0px -70% 0px", threshold: [0, 1] });
    sections.forEach(function (section) { spy.observe(section); });
  }

  // The other languages open at the section that is being read: its anchor is the same in all of them.
  each(".languages a", function (link) {
    link.addEventListener("click", function () {
      var current = reading();
      link.hash = current ? current.id : "";
    });
  });

  // Margin notes pass through the column of the contents, which makes way for them.
  each(".toc", function (toc) {
    function yieldToNotes() {
      var box = toc.getBoundingClientRect();
      if (!box.width) return;
      var passing = Array.prototype.some.call(document.querySelectorAll("article .margin-note, article .sortable .table-scroll"), function (note) {
        var at = note.getBoundingClientRect();
        return at.right > box.left && at.bottom > box.top && at.top < box.bottom;
      });
      toc.classList.toggle("aside", passing);
    }
    addEventListener("scroll", yieldToNotes, { passive: true });
    yieldToNotes();
  });

  // Paper cannot be unfolded.
  var opened = [];
  addEventListener("beforeprint", function () {
    opened = Array.prototype.slice.call(document.querySelectorAll("details:not([open])"));
    opened.forEach(function (folded) { folded.open = true; });
  });
  addEventListener("afterprint", function () {
    opened.forEach(function (folded) { folded.open = false; });
  });

  // Tabs after the WAI-ARIA pattern: arrows move, Home and End jump.
  each(".tabset", function (set, index) {
    var panels = Array.prototype.filter.call(set.children, function (child) { return child.classList.contains("tab"); });
    var list = make("div", {});
    list.setAttribute("role", "tablist");
    function select(number, focus) {
      panels.forEach(function (panel, i) {
        panel.hidden = i !== number;
        list.children[i].setAttribute("aria-selected", String(i === number));
        list.children[i].tabIndex = i === number ? 0 : -1;
      });
      if (focus) list.children[number].focus();
    }
    panels.forEach(function (panel, i) {
      var title = panel.querySelector(".tab-title");
      var tab = make("button", { type: "button", id: "tab-" + index + "-" + i, innerHTML: title.innerHTML }, list);
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", panel.id);
      title.hidden = true;
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", tab.id);
      tab.addEventListener("click", function () { select(i); });
      tab.addEventListener("keydown", function (event) {
        var last = panels.length - 1;
        var to = { ArrowRight: i === last ? 0 : i + 1, ArrowLeft: i ? i - 1 : last, Home: 0, End: last }[event.key];
        if (to !== undefined) { event.preventDefault(); select(to, true); }
      });
    });
    set.insertBefore(list, set.firstChild);
    select(0);
  });
  function reveal() {
    var target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    var panel = target.closest(".tab");
    if (panel && panel.hidden) document.getElementById(panel.getAttribute("aria-labelledby")).click();
    for (var folded = target.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", reveal);
  // The browser went to the target before tabs closed and fonts came: go there again, unless the reader has moved on.
  var moved = false;
  ["wheel", "touchstart", "keydown", "pointerdown"].forEach(function (kind) {
    addEventListener(kind, function () { moved = true; }, { passive: true, once: true });
  });
  reveal();
  addEventListener("load", function () {
    document.fonts.ready.then(function () { if (!moved) reveal(); });
  });

  // What is wider than its box can be scrolled by keyboard. Measuring lays a section out, so it waits for idle moments.
  var idle = window.requestIdleCallback || function (act) { setTimeout(act, 1, { timeRemaining: function () { return 10; } }); };
  var unmeasured = [];
  function measure(deadline) {
    do {
      var box = unmeasured.shift();
      if (!box) { document.body.dataset.reachable = ""; return; }
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    } while (deadline.timeRemaining() > 5);
    idle(measure);
  }
  function reachable() {
    unmeasured = Array.prototype.slice.call(document.querySelectorAll("pre, .equation math, .cell-output-display"));
    idle(measure);
  }
  addEventListener("resize", reachable);
  reachable();

  // Copying code.
  each("div.sourceCode", function (block) {
    var button = make("button", { type: "button", className: "copy", textContent: body.dataset.copy }, block);
    button.addEventListener("click", function () {
      var code = block.querySelector("code").innerText;
      function done() {
        button.textContent = body.dataset.copied;
        setTimeout(function () { button.textContent = body.dataset.copy; }, 1500);
      }
      if (navigator.clipboard && isSecureContext) { navigator.clipboard.writeText(code).then(done); return; }
      // Pages opened as files have no clipboard API.
      var area = make("textarea", { value: code }, body);
      area.select();
      if (document.execCommand("copy")) done();
      area.remove();
    });
  });

  // Search: index and engine are scripts that load when the dialog first opens.
  var dialog = document.querySelector("dialog.search");
  if (!dialog || !dialog.showModal) return;
  var input = dialog.querySelector("input");
  var hits = document.getElementById("hits");
  var count = dialog.querySelector(".count");
  var engine = null;

  // Words as they are; Hangul also by pairs of characters, since particles cling to words.
  function tokens(text) {
    var words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) || [];
    return words.reduce(function (all, word) {
      if (!/[가-힣]/.test(word)) return all.concat(word);
      var pairs = [];
      for (var i = 0; i + 1 < word.length; i++) pairs.push(word.slice(i, i + 2));
      return all.concat(word, pairs);
    }, []);
  }
  function load(source, then) {
    make("script", { src: source, onload: then }, document.head);
  }
  function prepare(then) {
    if (engine) { then(); return; }
    load(body.dataset.root + "assets/vendor/minisearch.js", function () {
      load(body.dataset.base + "search.js", function () {
        engine = new MiniSearch({
          fields: ["title", "text"],
          storeFields: ["page", "title", "text", "url"],
          tokenize: tokens,
          searchOptions: { boost: { title: 3 }, prefix: true, fuzzy: 0.15, combineWith: "AND" }
        });
        var id = 0;
        window.COURSE_SEARCH.pages.forEach(function (page) {
          page.sections.forEach(function (section) {
            var url = page.url + (section.id ? "#" + section.id : "");
            engine.add({ id: id++, page: page.title, title: section.title || page.title, text: section.text, url: url });
          });
        });
        then();
      });
    });
  }
  function snippet(hit, parent) {
    var at = -1;
    var term = "";
    hit.terms.forEach(function (word) {
      var found = hit.text.toLowerCase().indexOf(word);
      if (found >= 0 && (at < 0 || found < at)) { at = found; term = word; }
    });
    var start = Math.max(0, at - 60);
    var text = make("small", { textContent: (start ? "… " : "") + hit.text.slice(start, Math.max(at, 0)) }, parent);
    if (at < 0) { text.textContent = hit.text.slice(0, 140) + " …"; return; }
    make("mark", { textContent: hit.text.slice(at, at + term.length) }, text);
    text.appendChild(document.createTextNode(hit.text.slice(at + term.length, at + 110) + " …"));
  }
  function search() {
    hits.textContent = "";
    if (!engine || !input.value.trim()) { count.textContent = ""; return; }
    var found = engine.search(input.value).slice(0, 12);
    var said = found.length === 1 ? count.dataset.foundOne : found.length ? count.dataset.found : count.dataset.nothing;
    count.textContent = said.replace("{n}", found.length);
    if (!found.length) make("li", { textContent: count.dataset.nothing }, hits);
    found.forEach(function (hit) {
      var link = make("a", { href: body.dataset.base + hit.url }, make("li", {}, hits));
      make("strong", { textContent: hit.title }, link);
      if (hit.page !== hit.title) make("small", { textContent: hit.page }, link);
      snippet(hit, link);
      link.addEventListener("click", function () { dialog.close(); });
    });
  }
  function open() {
    if (dialog.open) return;
    dialog.showModal();
    input.select();
    prepare(search);
  }
  each("button.search-open", function (button) { button.addEventListener("click", open); });
  input.addEventListener("input", search);
  dialog.addEventListener("keydown", function (event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    var stops = [input].concat(Array.prototype.slice.call(hits.querySelectorAll("a")));
    var at = stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    stops[(at + stops.length) % stops.length].focus();
    event.preventDefault();
  });
  input.addEventListener("keydown", function (event) {
    if (event.key === "Escape") { event.preventDefault(); dialog.close(); return; } // not first a cleared field
    var first = hits.querySelector("a");
    if (event.key === "Enter" && first) { event.preventDefault(); first.click(); }
  });
  document.addEventListener("keydown", function (event) {
    var typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if ((event.key === "/" && !typing) || (event.key === "k" && (event.ctrlKey || event.metaKey))) {
      event.preventDefault();
      open();
    }
  });
})();
