-- The embedded engine's own part: what Quarto's filters do, for exactly the features that the book uses.
-- Links of class xref lead to labels: the press knows on which page each stands.

local stringify = pandoc.utils.stringify
local KINDS = { fig = true, tbl = true, lst = true, eq = true, sec = true }
local words, chapter, here = {}, "", {}
local counts, heads = {}, {}
local labels, toc, links, images = pandoc.List {}, pandoc.List {}, pandoc.List {}, pandoc.List {}

local function html(text) return pandoc.RawBlock("html", text) end
local function escaped(text)
  return (text:gsub("&", "&amp;"):gsub('"', "&quot;"):gsub("<", "&lt;"))
end
local function kind_of(id)
  local kind = id:match("^(%a+)%-")
  return KINDS[kind] and kind or nil
end

local function next_number(kind)
  counts[kind] = (counts[kind] or 0) + 1
  return (chapter ~= "" and chapter .. "." or "") .. counts[kind]
end

local function label(id, kind, number, title)
  table.insert(labels, { id = id, kind = kind, number = number, title = title })
end

local blocks -- defined below; containers call it for what they hold

local function wrapped(open, content, close)
  local list = pandoc.List { html(open) }
  list:extend(content)
  list:insert(html(close))
  return list
end

local function float(div, kind)
  local content = pandoc.List(div.content)
  local caption = content:remove()
  if not caption or caption.t ~= "Para" then
    error(("#%s needs a caption: its last paragraph"):format(div.identifier))
  end
  if kind == "fig" and not div.attributes["fig-alt"] then
    error(("#%s needs a text alternative: fig-alt"):format(div.identifier))
  end
  local number = next_number(kind)
  label(div.identifier, kind, number, stringify(caption))
  local title = pandoc.Span({ pandoc.Str(words["ui-" .. kind] .. "\u{a0}" .. number) }, { class = "caption-label" })
  local text = pandoc.List { title, pandoc.Space() }
  text:extend(caption.content)
  local name = div.identifier .. "-caption"
  local legend = wrapped(('<figcaption id="%s">'):format(name), { pandoc.Plain(text) }, "</figcaption>")
  local body = blocks(content, name)
  local classes = { fig = "figure", tbl = "table", lst = "listing" }
  local list = pandoc.List { html(('<figure id="%s" class="float %s">'):format(div.identifier, classes[kind])) }
  list:extend(kind == "fig" and body or legend)
  list:extend(kind == "fig" and legend or body)
  list:insert(html("</figure>"))
  return list
end

local function callout(div, kind)
  local content = pandoc.List(div.content)
  local title = div.attributes.title and pandoc.utils.blocks_to_inlines(pandoc.read(div.attributes.title, "markdown").blocks)
  if not title and content[1] and content[1].t == "Header" then title = content:remove(1).content end
  title = title or pandoc.Inlines(words["ui-" .. kind])
  local id = div.identifier ~= "" and (' id="%s"'):format(div.identifier) or ""
  local extra = div.classes:filter(function(c) return not c:match("^callout") end)
  local class = table.concat(pandoc.List { "callout", "callout-" .. kind } .. extra, " ")
  local collapse = div.attributes.collapse
  local list = pandoc.List {}
  if collapse then
    list:insert(html(('<details%s class="%s"%s><summary class="callout-title">'):format(id, class, collapse == "false" and " open" or "")))
    list:insert(pandoc.Plain(title))
    list:insert(html('</summary><div class="callout-body">'))
  else
    list:insert(html(('<div%s class="%s" role="note"><p class="callout-title">'):format(id, class)))
    list:insert(pandoc.Plain(title))
    list:insert(html('</p><div class="callout-body">'))
  end
  list:extend(blocks(content))
  list:insert(html(collapse and "</div></details>" or "</div></div>"))
  return list
end

local function tabset(div)
  local list, level, open = pandoc.List { html('<div class="tabset">') }, nil, false
  for _, block in ipairs(div.content) do
    if block.t == "Header" and (not level or block.level == level) then
      level = block.level
      if open then list:insert(html("</section>")) end
      open = true
      list:insert(html(('<section class="tab" id="%s"><p class="tab-title">'):format(block.identifier)))
      list:insert(pandoc.Plain(block.content))
      list:insert(html("</p>"))
    elseif not open then
      error("a panel-tabset must start with a heading")
    else
      list:extend(blocks { block })
    end
  end
  list:insert(html("</section></div>"))
  return list
end

local function cell_code(div)
  if div.attributes.fold ~= "true" then return wrapped('<div class="cell-code">', div.content, "</div>") end
  local open = ('<details class="cell-code"><summary>%s</summary>'):format(escaped(words["ui-code"]))
  return wrapped(open, div.content, "</details>")
end

local function header(block)
  local number = ""
  if chapter ~= "" and block.level <= 3 and not block.classes:includes("unnumbered") then
    heads[block.level] = (heads[block.level] or 0) + 1
    for deeper = block.level + 1, 6 do heads[deeper] = 0 end
    local parts = pandoc.List { chapter }
    for level = 2, block.level do parts:insert(tostring(heads[level] or 0)) end
    number = table.concat(parts, ".")
  end
  local title = stringify(block.content)
  if kind_of(block.identifier) == "sec" then label(block.identifier, "sec", number, title) end
  if block.level <= 3 then
    table.insert(toc, { id = block.identifier, level = block.level, number = number, title = title })
  end
  if number ~= "" then
    block.content:insert(1, pandoc.Space())
    block.content:insert(1, pandoc.Span({ pandoc.Str(number) }, { class = "header-section-number" }))
  end
  local name = escaped(words["ui-link-to-section"] .. ": " .. title)
  block.content:insert(pandoc.RawInline("html", ('<a class="anchor" href="#%s" aria-label="%s">#</a>'):format(block.identifier, name)))
  return block
end

-- A paragraph with display maths becomes text, equation, text; {#eq-x} after the maths numbers it.
local function paragraph(para)
  local displayed = false
  para:walk { Math = function(math) displayed = displayed or math.mathtype == "DisplayMath" end }
  if not displayed then return { para } end
  local list, text = pandoc.List {}, pandoc.List {}
  local function flush()
    if #text > 0 then list:insert(pandoc.Para(text)) end
    text = pandoc.List {}
  end
  local i, content = 1, para.content
  while i <= #content do
    local inline = content[i]
    if inline.t == "Math" and inline.mathtype == "DisplayMath" then
      while #text > 0 and (text[#text].t == "Space" or text[#text].t == "SoftBreak") do text:remove() end
      flush()
      local mark = content[i + 1]
      local at = i + 1
      if mark and (mark.t == "Space" or mark.t == "SoftBreak") then mark, at = content[i + 2], i + 2 end
      local id, rest = "", ""
      if mark and mark.t == "Str" then id, rest = mark.text:match("^{#(eq%-[%w_-]+)}(.*)$") end
      if id and id ~= "" then
        i = at
        local number = next_number("eq")
        label(id, "eq", number, "")
        list:insert(html(('<div class="equation" id="%s"><div class="formula">'):format(id)))
        list:insert(pandoc.Plain { inline })
        list:insert(html(('</div><span class="equation-number">(%s)</span></div>'):format(number)))
        if rest ~= "" then text:insert(pandoc.Str(rest)) end
      else
        list:extend(wrapped('<div class="equation"><div class="formula">', { pandoc.Plain { inline } }, "</div></div>"))
      end
      while content[i + 1] and (content[i + 1].t == "Space" or content[i + 1].t == "SoftBreak") do i = i + 1 end
    else
      text:insert(inline)
    end
    i = i + 1
  end
  flush()
  return list
end

local function scrolled(content, caption)
  -- A landmark only with a name of its own: several called "Table" would not be told apart.
  local role = caption and (' role="region" aria-labelledby="%s"'):format(caption) or ""
  return wrapped(('<div class="table-scroll" tabindex="0"%s>'):format(role), content, "</div>")
end

local function block_of(block, caption)
  if block.t == "Div" then
    local kind = kind_of(block.identifier)
    if kind and kind ~= "sec" and kind ~= "eq" then return float(block, kind) end
    for _, class in ipairs(block.classes) do
      local flavour = class:match("^callout%-(%a+)$")
      if flavour then return callout(block, flavour) end
      if class == "panel-tabset" then return tabset(block) end
      if class == "cell-code" then return cell_code(block) end
      -- What a reader comes to later is put apart, between these marks.
      if class == "later" then return wrapped("<!-- later -->", blocks(block.content), "<!-- /later -->") end
      if class == "pipes" then
        for target in block.attributes.links:gmatch("%S+") do table.insert(links, target) end
        return scrolled(block.content, caption)
      end
      if class == "column-margin" or class == "aside" then
        return wrapped('<div class="margin-note" role="note">', blocks(block.content), "</div>")
      end
    end
    block.content = blocks(block.content, caption)
    return { block }
  elseif block.t == "Header" then
    return { header(block) }
  elseif block.t == "Para" then
    return paragraph(block)
  elseif block.t == "BlockQuote" then
    block.content = blocks(block.content)
    return { block }
  elseif block.t == "BulletList" or block.t == "OrderedList" then
    block.content = block.content:map(function(item) return blocks(item) end)
    return { block }
  elseif block.t == "Table" then
    return scrolled({ block }, caption)
  end
  return { block }
end

blocks = function(list, caption)
  local done = pandoc.List {}
  for _, block in ipairs(list) do done:extend(block_of(block, caption)) end
  return done
end

local function visible(element)
  local show, hide = element.classes:includes("content-visible"), element.classes:includes("content-hidden")
  if not show and not hide then return nil end
  local matches = true
  for name, value in pairs(element.attributes) do
    local value_here = here[name:match("^%a+%-(%a+)$") or ""]
    if not value_here then error("conditional content by " .. name .. " is not known to the embedded engine") end
    local same = value == value_here or (name:match("format$") and value:match("^html"))
    if name:match("^unless") then same = not same end
    matches = matches and same
  end
  if (show and matches) or (hide and not matches) then return element.content end
  return {}
end

local function link(element)
  if element.classes:includes("xref") then return nil end
  local file, anchor = element.target:match("^([^#:]+)%.qmd(#?.*)$")
  if file then
    element.target = file .. ".html" .. anchor
    table.insert(links, element.target)
  elseif element.target:match("^#") then
    table.insert(links, element.target)
  end
  return element
end

function Pandoc(doc)
  local course = pandoc.json.decode(stringify(doc.meta.course))
  words, chapter = course.words, course.chapter
  here = { profile = course.profile, format = "html", meta = course.published and "published" or "" }
  local content = doc.blocks:walk { Div = visible, Span = visible }
  content = pandoc.Blocks(blocks(content)):walk {
    Link = link,
    Image = function(image)
      if not image.src:match("^data:") then table.insert(images, image.src) end
      return image
    end,
    Span = function(span)
      if span.classes:includes("aside") then
        span.classes, span.attributes.role = { "margin-note" }, "note"
        return span
      end
    end,
  }
  local data = { labels = labels, toc = toc, links = links, images = images,
    minutes = tonumber(stringify(doc.meta["reading-minutes"])), work = tonumber(stringify(doc.meta["work-minutes"])),
    path = tonumber(stringify(doc.meta["path-minutes"] or "")),
    study = doc.meta.study and pandoc.json.decode(stringify(doc.meta.study), false) }
  doc.meta["course-data"] = pandoc.MetaBlocks { html(pandoc.json.encode(data)) }
  doc.blocks = content
  return doc
end
