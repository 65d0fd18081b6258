// Cards that show what a link of the text means, out of what the page holds: a figure, a formula, a source, a term.
// course.js asks for this file when a reader first comes to such a link.
(function () {
  "use strict";
  var main = document.getElementById("content");
  var card = document.createElement("div");
  card.id = "preview";
  card.className = "preview";
  card.hidden = true;
  var shown = null;
  var timer = 0;

  // A copy lies beside what it was copied from, which keeps its names to itself.
  function copied(element) {
    var copy = element.outerHTML
      .replace(/\b(id|for|name|aria-labelledby|aria-describedby|aria-controls)="/g, '$1="preview-')
      .replace(/((?:href="|url\((?:"|&quot;)?)#)/g, "$1preview-");
    var holder = document.createElement("div");
    holder.innerHTML = copy;
    Array.prototype.forEach.call(holder.querySelectorAll("script, .anchor, .copy, details, form, button, .footnote-back"), function (one) { one.remove(); });
    Array.prototype.forEach.call(holder.querySelectorAll("a, [tabindex]"), function (one) { one.removeAttribute("href"); one.removeAttribute("tabindex"); });
    return holder;
  }
  function put(element) {
    if (element) card.appendChild(copied(element));
  }

  function fill(link) {
    card.textContent = "";
    if (link.dataset.meaning) {
      var name = document.createElement("strong");
      name.textContent = link.textContent;
      var text = document.createElement("p");
      text.textContent = link.dataset.meaning;
      card.appendChild(name);
      card.appendChild(text);
      return true;
    }
    var target = document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (!target) return false;
    if (target.matches(".float")) {
      // Of a figure drawn twice, the one with letters for a small box.
      if (target.matches(".figure")) {
        var picture = target.querySelector("svg.narrow") || target.querySelector(".sizes > svg, .cell-output-display > svg, img");
        put(picture);
      } else {
        put(target.querySelector("table") || target.querySelector(".cell-output-display") || target.querySelector("pre"));
      }
      put(target.querySelector("figcaption"));
    } else if (target.matches(".equation")) {
      put(target.querySelector("math"));
    } else if (target.matches("section, h2, h3, h4")) {
      var section = target.closest("section");
      var opening = section.querySelector("p");
      var head = card.appendChild(copied(section.querySelector("h2, h3, h4")));
      if (opening) head.appendChild(copied(opening).firstChild);
    } else {
      put(target);
    }
    return card.childNodes.length > 0;
  }

  function place(link) {
    var line = link.getClientRects()[0];
    var last = link.getClientRects()[link.getClientRects().length - 1];
    var width = document.documentElement.clientWidth;
    card.style.left = "0";
    card.style.top = "0";
    var box = card.getBoundingClientRect();
    var below = last.bottom + 6;
    var top = below + box.height > innerHeight && line.top - 6 - box.height > 60 ? line.top - 6 - box.height : below;
    card.style.left = Math.max(8, Math.min(line.left, width - 8 - box.width)) + scrollX + "px";
    card.style.top = top + scrollY + "px";
  }

  function hide() {
    clearTimeout(timer);
    if (!shown) return;
    shown.removeAttribute("aria-describedby");
    delete shown.dataset.tapped;
    shown = null;
    card.hidden = true;
  }
  function show(link, touched) {
    clearTimeout(timer);
    if (shown === link) return true;
    hide();
    // The browser's own tooltip would lie over the card.
    if (link.title) { link.dataset.meaning = link.title; link.removeAttribute("title"); }
    if (!fill(link)) return false;
    shown = link;
    card.hidden = false;
    if (touched) {
      var way = document.createElement("a");
      way.className = "preview-way";
      way.href = link.getAttribute("href");
      way.textContent = document.body.dataset.goTo.replace("{name}", link.textContent);
      card.appendChild(way);
      card.setAttribute("role", "group");
      card.setAttribute("aria-label", link.textContent);
    } else {
      card.setAttribute("role", "tooltip");
      card.removeAttribute("aria-label");
      link.setAttribute("aria-describedby", "preview");
    }
    place(link);
    return true;
  }
  function later(act, wait) {
    clearTimeout(timer);
    timer = setTimeout(act, wait);
  }

  main.appendChild(card);
  card.addEventListener("pointerenter", function () { clearTimeout(timer); });
  card.addEventListener("pointerleave", function () { later(hide, 200); });
  card.addEventListener("click", function (event) { if (event.target.closest("a")) hide(); });
  document.addEventListener("pointerout", function (event) {
    if (event.pointerType !== "touch" && shown !== document.activeElement) later(hide, 200);
  });
  document.addEventListener("focusout", function (event) { if (!card.contains(event.relatedTarget)) later(hide, 100); });
  document.addEventListener("pointerdown", function (event) {
    if (shown && !card.contains(event.target) && event.target.closest("a") !== shown) hide();
  });
  document.addEventListener("keydown", function (event) { if (event.key === "Escape") hide(); });

  // What course.js tells: how a reader came to a link. False where the page holds nothing to show.
  window.coursePreview = function (link, how) {
    if (how === "click") return show(link, true);
    if (how === "focusin") return link.matches(":focus-visible") ? show(link) : true;
    // Who only passes over a link has gone by then.
    later(function () { if (link.matches(":hover")) show(link); }, 150);
    return true;
  };
})();
