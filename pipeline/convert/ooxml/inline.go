package ooxml

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

// inlines writes what is in a paragraph.
func (w *word) inlines(n *markup.Node) {
	for c := range n.Children {
		switch c.Name {
		case "r":
			w.run(c)
		case "hyperlink", "fldSimple":
			w.hyperlink(c)
		case "ins", "moveTo", "smartTag", "customXml", "dir", "bdo":
			w.inlines(c)
		case "sdt":
			w.inlines(c.Child("sdtContent"))
		case "del", "moveFrom":
			w.deleted(c)
		case "AlternateContent":
			w.inlines(choice(c))
		case "oMath":
			w.w.Math(tex(c), false)
		case "oMathPara":
			for m := range c.Children {
				if m.Name == "oMath" {
					w.w.Math(tex(m), true)
				}
			}
		}
	}
}

func (w *word) hyperlink(n *markup.Node) {
	if w.inCode() != nil {
		w.inlines(n)
		return
	}
	if n.Name == "fldSimple" {
		w.w.Link(w.linkOf(n.Attr("instr")), "")
		w.inlines(n)
		w.w.EndLink()
		if n.First == nil {
			w.unresolved(n.Attr("instr"))
		}
		return
	}
	rels, _ := w.relations(w.part)
	href := rels[n.Attr("r:id")].target
	if anchor := n.Attr("anchor"); anchor != "" && href == "" {
		href = w.anchor(anchor)
	} else if anchor != "" {
		href += "#" + anchor
	}
	w.w.Link(href, n.Attr("tooltip"))
	w.inlines(n)
	w.w.EndLink()
}

// linkOf is the target that the instruction of a field states; empty if it is not a link.
func (w *word) linkOf(instruction string) string {
	rest, ok := strings.CutPrefix(strings.TrimSpace(instruction), "HYPERLINK")
	if !ok {
		return ""
	}
	rest, within := strings.CutPrefix(strings.TrimSpace(rest), `\l`)
	rest = strings.TrimSpace(rest)
	if _, quoted, ok := strings.Cut(rest, `"`); ok {
		rest, _, _ = strings.Cut(quoted, `"`)
	}
	if within {
		return w.anchor(rest)
	}
	return rest
}

// run writes text of one look.
func (w *word) run(n *markup.Node) {
	pr := n.Child("rPr")
	style := w.styles[pr.Child("rStyle").Attr("val")]
	vanishes := on(pr.Child("vanish")) && pr.Child("specVanish") == nil
	if vanishes && !w.d.Hidden || style.placeholder {
		w.fieldParts(n)
		return
	}
	if style.code && w.inCode() == nil {
		w.w.Code(plainText(n))
		return
	}
	raised := pr.Child("vertAlign").Attr("val") == "superscript"
	w.w.Styled(toggled(pr, "b", style.bold), toggled(pr, "i", style.italic),
		on(pr.Child("strike")) || on(pr.Child("dstrike")), func() {
			for c := range n.Children {
				w.piece(c, raised)
			}
		})
	w.w.Text(marked(vanishes))
}

func toggled(pr *markup.Node, name string, inherited bool) bool {
	if c := pr.Child(name); c != nil {
		return on(c)
	}
	return inherited
}

// piece writes an element of a run.
func (w *word) piece(c *markup.Node, raised bool) {
	if f := w.inCode(); f != nil && c.Name != "fldChar" {
		if c.Name == "t" || c.Name == "instrText" { // a field within a code stands for its result
			f.instruction.WriteString(c.Content())
		}
		return
	}
	switch c.Name {
	case "t", "delText":
		if raised {
			w.w.Superscript(c.Content())
		} else {
			w.w.Text(c.Content())
		}
	case "tab", "ptab":
		w.w.Text(" ")
	case "br":
		if c.Attr("type") == "page" || c.Attr("type") == "column" {
			w.w.Text(" ")
		} else {
			w.w.Break()
		}
	case "cr":
		w.w.Break()
	case "noBreakHyphen":
		w.w.Text("-")
	case "sym":
		if n, err := strconv.ParseInt(c.Attr("char"), 16, 32); err == nil {
			w.w.Text(doc.Symbol(c.Attr("font"), int(n)))
		}
	case "footnoteReference", "endnoteReference", "commentReference":
		n := note{strings.TrimSuffix(c.Name, "Reference"), c.Attr("id")}
		if w.bodies[n] == nil {
			return // it is not there
		}
		if !slices.Contains(w.notes, n) {
			w.notes = append(w.notes, n)
		}
		w.w.Raw("[^" + n.label() + "]")
	case "drawing", "pict", "object":
		w.drawing(c)
	case "AlternateContent":
		for d := range choice(c).Children {
			w.piece(d, raised)
		}
	case "ruby":
		w.inlines(c.Child("rubyBase"))
		w.w.Text("(")
		w.inlines(c.Child("rt"))
		w.w.Text(")")
	case "fldChar", "instrText":
		w.fieldPart(c)
	}
}

// inCode is the innermost field whose code is being read, even if one within that code shows its result by now; nil
// outside of any code.
func (w *word) inCode() *field {
	for _, f := range slices.Backward(w.field) {
		if !f.shows {
			return f
		}
	}
	return nil
}

func (w *word) fieldParts(n *markup.Node) {
	for c := range n.Children {
		if c.Name == "fldChar" || c.Name == "instrText" {
			w.fieldPart(c)
		}
	}
}

func (w *word) fieldPart(c *markup.Node) {
	if c.Name == "instrText" {
		if len(w.field) > 0 {
			w.field[len(w.field)-1].instruction.WriteString(c.Content())
		}
		return
	}
	switch c.Attr("fldCharType") {
	case "begin":
		w.field = append(w.field, &field{state: formState(c.Child("ffData"))})
	case "separate":
		if len(w.field) == 0 {
			return
		}
		top := w.field[len(w.field)-1]
		top.shows = true
		if url := w.linkOf(top.instruction.String()); url != "" && w.inCode() == nil {
			top.link = true
			w.w.Link(url, "")
		}
	case "end":
		w.endField()
	}
}

// deleted passes over what was deleted, but for the ends of fields that began outside. What is hidden is struck out.
func (w *word) deleted(n *markup.Node) {
	if w.d.Hidden {
		w.w.Styled(false, false, true, func() { w.inlines(n) })
		return
	}
	within := 0
	for c := range n.All {
		kind := c.Attr("fldCharType")
		switch {
		case c.Name != "fldChar":
		case kind == "begin":
			within++
		case within == 0:
			w.fieldPart(c)
		case kind == "end":
			within--
		}
	}
}

func (w *word) endField() {
	if len(w.field) == 0 {
		return
	}
	f := w.field[len(w.field)-1]
	if f.link {
		w.w.EndLink()
	}
	w.field = w.field[:len(w.field)-1]
	if f.shows || w.inCode() != nil {
		return
	}
	w.unresolved(f.instruction.String())
	if f.state == "[x]" || f.state == "[ ]" {
		w.w.Raw(f.state)
		f.state = " "
	}
	w.w.Text(f.state)
}

// unresolved writes what a field shows that keeps no result.
func (w *word) unresolved(instruction string) {
	text, tex := doc.Field(instruction)
	w.w.Text(text)
	w.w.Math(tex, false)
}

// formState is what a field of a form has: a tick, or the chosen entry of a list.
func formState(n *markup.Node) string {
	if box := n.Child("checkBox"); box != nil {
		return map[bool]string{true: "[x]", false: "[ ]"}[on(cmp.Or(box.Child("checked"), box.Child("default")))]
	}
	list := n.Child("ddList")
	chosen := whole(cmp.Or(list.Child("result"), list.Child("default")).Attr("val"), 0)
	for e := range list.Children {
		if e.Name == "listEntry" {
			if chosen == 0 {
				return e.Attr("val")
			}
			chosen--
		}
	}
	return ""
}

// drawing writes a picture, and keeps text boxes, charts and diagrams for after the paragraph.
func (w *word) drawing(n *markup.Node) {
	whole, alt := "", "" // Word has the text of a picture at the frame around it; other programs at the picture
	images := 0
	var walk func(n *markup.Node)
	walk = func(n *markup.Node) {
		for c := range n.Children {
			switch c.Name {
			case "docPr":
				whole = cmp.Or(c.Attr("descr"), c.Attr("title"))
				alt = whole
			case "cNvPr":
				alt = cmp.Or(c.Attr("descr"), cmp.Or(c.Attr("title"), whole))
			case "shape":
				alt = cmp.Or(alt, c.Attr("alt"))
			case "blip":
				images++
				w.picture(w.part, cmp.Or(c.Attr("r:embed"), c.Attr("r:link")), alt)
			case "imagedata":
				images++
				w.picture(w.part, c.Attr("r:id"), cmp.Or(alt, c.Attr("title")))
			case "chart", "relIds":
				if len(c.Attr("r:id")+c.Attr("r:dm")) > 0 {
					w.after = append(w.after, c)
					images++
				}
			case "OLEObject":
				w.after = append(w.after, c)
			case "textpath":
				w.w.Text(c.Attr("string"))
				images++
			case "txbxContent", "txBody":
				w.after = append(w.after, c)
				images++
				continue
			case "Fallback":
				continue
			}
			walk(c)
		}
	}
	walk(n)
	if images == 0 && alt != "" {
		w.w.Image(alt, "", "")
	}
}
