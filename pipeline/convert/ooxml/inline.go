package ooxml

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

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
	if on(pr.Child("vanish")) && pr.Child("specVanish") == nil {
		w.fieldParts(n)
		return
	}
	style := w.styles[pr.Child("rStyle").Attr("val")]
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
	case "t":
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
		w.w.Text(symbol(c.Attr("font"), c.Attr("char")))
	case "footnoteReference", "endnoteReference", "commentReference":
		n := note{strings.TrimSuffix(c.Name, "Reference"), c.Attr("id")}
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

// symbols are the characters of the font Symbol, from 0x20 on; a space is none.
var symbols = []rune(` !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼ ` +
	strings.Repeat(" ", 0x20) + `€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪ 〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭`)

// symbol is a character of a symbol font.
func symbol(font, code string) string {
	n, err := strconv.ParseUint(code, 16, 32)
	switch {
	case err != nil:
		return ""
	case n >= 0xf000 && n < 0xf100 && strings.EqualFold(font, "Symbol"):
		return strings.TrimSpace(string(at(symbols, int(n-0xf020))))
	case n >= 0xf000 && n < 0xf100:
		marks := map[uint64]string{0xfc: "✓", 0xfb: "✗", 0xa8: "☐", 0xfe: "☑", 0xe0: "→", 0xdf: "←", 0xb7: "•",
			0xa7: "▪", 0x4a: "☺"}
		return marks[n-0xf000]
	}
	return string(rune(n))
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

// deleted passes over what was deleted, but for the ends of fields that began outside.
func (w *word) deleted(n *markup.Node) {
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
	if words := strings.Fields(f.instruction.String()); len(words) > 2 && words[0] == "MACROBUTTON" {
		f.state = strings.Join(words[2:], " ")
	}
	if f.state == "[x]" || f.state == "[ ]" {
		w.w.Raw(f.state)
		f.state = " "
	}
	w.w.Text(f.state)
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
	for c := range n.All {
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
		case "txbxContent":
			w.after = append(w.after, c)
			images++
		case "Fallback":
			return
		}
	}
	if images == 0 && alt != "" {
		w.w.Image(alt, "", "")
	}
}
