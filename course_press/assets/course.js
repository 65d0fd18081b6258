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

  // What an address names: it may be no text at all, as in "#%".
  function named(hash) {
    try { return decodeURIComponent(hash.slice(1)); } catch (_) { return ""; }
  }

  function load(source, then) {
    make("script", { src: source, onload: then }, document.head);
  }
  // Measuring lays the page out at once, which takes long where letters are many: it waits for idle moments once all is there.
  var idle = window.requestIdleCallback || function (act) { setTimeout(act, 1, { timeRemaining: function () { return 10; } }); };
  function settled(act) {
    if (document.readyState === "complete") idle(act);
    else addEventListener("load", function () { idle(act); });
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

  // The sections of this page, under its chapter in the sidebar: where the column beside the text has no room.
  each(".toc > ul", function (list) {
    each("#sidebar [aria-current]", function (link) {
      var sections = list.cloneNode(true);
      sections.className = "sections";
      link.parentElement.appendChild(sections);
    });
  });

  // The drawer with the contents, on narrow screens: what lies behind it is shaded, and out of reach meanwhile.
  each("button.menu", function (button) {
    var sidebar = document.getElementById("sidebar");
    var shade = make("div", { className: "shade", hidden: true }, body);
    var narrow = matchMedia("(max-width: 55rem)");
    function open(yes) {
      if (yes === sidebar.classList.contains("open")) return;
      sidebar.classList.toggle("open", yes);
      root.classList.toggle("drawn", yes);
      shade.hidden = !yes;
      button.setAttribute("aria-expanded", String(yes));
      each(".skip, .bar > :not(.menu), .shell > :not(.sidebar)", function (behind) { behind.inert = yes; });
      if (!yes) return;
      var here = sidebar.querySelector(".here") || sidebar.querySelector("[aria-current]") || sidebar.querySelector("a");
      here.focus();
    }
    button.addEventListener("click", function () { open(!sidebar.classList.contains("open")); });
    document.addEventListener("keydown", function (event) {
      if (event.key === "Escape" && sidebar.classList.contains("open")) { open(false); button.focus(); }
    });
    shade.addEventListener("click", function () { open(false); });
    sidebar.addEventListener("click", function (event) { if (event.target.closest("a")) open(false); });
    narrow.addEventListener("change", function () { open(false); });
  });

  // Which section of the contents is being read; where their column has no room, a line below the bar says it.
  var links = {};
  each(".toc a, .sections a", function (link) {
    var id = named(link.hash);
    (links[id] = links[id] || []).push(link);
  });
  var sections = Object.keys(links).map(function (id) { return document.getElementById(id); }).filter(Boolean);
  function reading() {
    return sections.filter(function (section) { // what a prediction still closes is not being read
      return !section.hidden && section.getBoundingClientRect().top < innerHeight * 0.3;
    }).pop();
  }
  if (sections.length && "IntersectionObserver" in window) {
    var now = make("a", { className: "now", hidden: true }, document.querySelector(".bar"));
    var spy = new IntersectionObserver(function () {
      var current = reading();
      each(".toc a, .sections a", function (link) {
        var here = Boolean(current) && links[current.id].indexOf(link) >= 0;
        var list = link.closest("nav");
        if (here && !link.classList.contains("here") && list.scrollHeight > list.clientHeight) {
          list.scrollTop += link.getBoundingClientRect().top - list.getBoundingClientRect().top - list.clientHeight / 2;
        }
        link.classList.toggle("here", here);
      });
      now.hidden = !current;
      if (!current) return;
      now.href = "#" + current.id;
      now.textContent = links[current.id][0].textContent;
    }, { rootMargin: "0px 0px -70% 0px", threshold: [0, 1] });
    settled(function () { sections.forEach(function (section) { spy.observe(section); }); });
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
    settled(yieldToNotes);
  });

  // All folded code at once: what a reader chose holds on every page.
  each(".code-switch", function (button) {
    function show(yes) {
      each("details.cell-code", function (folded) { folded.open = yes; });
      button.setAttribute("aria-pressed", String(yes));
    }
    button.addEventListener("click", function () {
      var yes = button.getAttribute("aria-pressed") !== "true";
      show(yes);
      try { localStorage.setItem("course-code", yes ? "shown" : "folded"); } catch (error) { /* lasts for this page only */ }
    });
    try { if (localStorage.getItem("course-code") === "shown") show(true); } catch (error) { /* folded */ }
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
    var target = location.hash && document.getElementById(named(location.hash));
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
    // So may what draws as it comes near, above the target.
    var grown = new ResizeObserver(function () { if (!moved) reveal(); });
    grown.observe(document.body);
    setTimeout(function () { grown.disconnect(); }, 1000);
  });

  // What is wider than its box can be scrolled by keyboard. All is measured before anything changes: each change in
  // between would have the page laid out once more.
  var unmeasured = [], measured = [];
  function measure(deadline) {
    do {
      var box = unmeasured.shift();
      if (box) measured.push([box, box.scrollWidth > box.clientWidth]);
    } while (unmeasured.length && deadline.timeRemaining() > 5);
    if (unmeasured.length) { idle(measure); return; }
    measured.splice(0).forEach(function (one) {
      if (one[1]) one[0].tabIndex = 0;
      else one[0].removeAttribute("tabindex");
    });
    document.body.dataset.reachable = "";
  }
  function reachable() {
    unmeasured = Array.prototype.slice.call(document.querySelectorAll("pre, .formula, .cell-output-display"))
      .filter(function (box) { return !box.querySelector("[data-copied]"); });  // what is filled later keeps its tabindex
    settled(measure);
  }
  addEventListener("resize", reachable);
  addEventListener("toggle", reachable, true); // what was folded away had no size
  reachable();

  function copy(text, done) {
    // Pages opened as files have no clipboard API, and a browser may refuse it.
    function unasked() {
      var area = make("textarea", { value: text }, body);
      var before = document.activeElement;
      area.select();
      if (document.execCommand("copy")) done();
      area.remove();
      before.focus({ preventScroll: true });
    }
    if (navigator.clipboard && isSecureContext) navigator.clipboard.writeText(text).then(done, unasked);
    else unasked();
  }

  // Copying code.
  each(":is(div, dd).sourceCode", function (block) {
    var button = make("button", { type: "button", className: "copy", textContent: body.dataset.copy }, block);
    button.addEventListener("click", function () {
      copy(block.querySelector("code").innerText, function () {
        button.textContent = body.dataset.copied;
        setTimeout(function () { button.textContent = body.dataset.copy; }, 1500);
      });
    });
  });

  // Figures, tables and exercises have a link to themselves, as headings do; following one copies its address.
  each(".float[id] > figcaption, .exercise[id] > .exercise-title", function (head) {
    var named = head.querySelector(".caption-label") || head;
    var anchor = make("a", { className: "anchor", href: "#" + head.parentElement.id, textContent: "#" });
    anchor.setAttribute("aria-label", body.dataset.linkTo.replace("{name}", named.textContent));
    // What the caption names is not named by the link as well.
    var text = make("span", {});
    while (head.firstChild) text.appendChild(head.firstChild);
    if (head.id) { text.id = head.id; head.removeAttribute("id"); }
    head.appendChild(text);
    head.appendChild(anchor);
  });
  each("main .anchor", function (anchor) {
    var name = anchor.getAttribute("aria-label");
    anchor.addEventListener("click", function () {
      copy(location.href.split(/[?#]/)[0] + anchor.hash, function () {
        anchor.textContent = body.dataset.copied;
        anchor.setAttribute("aria-label", body.dataset.copied);
        setTimeout(function () { anchor.textContent = "#"; anchor.setAttribute("aria-label", name); }, 1500);
      });
    });
  });

  // What a link of the text means: a card, by a script that loads when a reader first comes to such a link. A finger has
  // no way to point without going: its first tap opens the card, which holds the link.
  var previewed = "article :is(a.xref, a.term, .citation a, a[role='doc-biblioref'], a.footnote-ref)";
  var touched = false;
  addEventListener("pointerdown", function (event) { touched = event.pointerType === "touch"; }, true);
  addEventListener("keydown", function () { touched = false; }, true);
  ["pointerover", "focusin", "click"].forEach(function (kind) {
    document.addEventListener(kind, function (event) {
      var link = event.target.closest && event.target.closest(previewed);
      // Of what another page holds only a term brings its meaning along.
      if (!link || !(link.getAttribute("href")[0] === "#" || link.title || link.dataset.meaning)) return;
      if ((kind === "click") !== touched || event.pointerType === "touch" && kind === "pointerover" || "tapped" in link.dataset) return;
      if (touched) { event.preventDefault(); link.dataset.tapped = ""; }
      function tell() { if (!window.coursePreview(link, kind) && touched) link.click(); }
      if (window.coursePreview) tell();
      else load(body.dataset.root + "assets/preview.js", tell);
    });
  });

  // Search: what it needs comes when the reader reaches for it.
  var dialog = document.querySelector("dialog.search");
  if (!dialog || !dialog.showModal) return;
  var asked = false;
  function prepare() {
    if (asked) return;
    asked = true;
    [body.dataset.root + "assets/vendor/minisearch.js", body.dataset.base + "search.js", body.dataset.root + "assets/search.js"].forEach(function (source) {
      make("script", { src: source, async: false, onerror: function () { asked = false; } }, document.head);
    });
  }
  function open() {
    if (dialog.open) return;
    dialog.showModal();
    dialog.querySelector("input").select();
    prepare();
  }
  each("button.search-open", function (button) {
    button.addEventListener("click", open);
    button.addEventListener("pointerenter", prepare);
    button.addEventListener("focus", prepare);
  });
  document.addEventListener("keydown", function (event) {
    var typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if ((event.key === "/" && !typing) || (event.key === "k" && (event.ctrlKey || event.metaKey))) {
      event.preventDefault();
      open();
    }
  });
})();
