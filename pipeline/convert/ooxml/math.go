package ooxml

import (
	"cmp"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/texmath"
)

// tex makes TeX of a formula of Office.
func tex(n *markup.Node) string {
	var b strings.Builder
	for c := range n.Children {
		b.WriteString(formula(c))
	}
	return strings.TrimSpace(b.String())
}

func group(n *markup.Node) string { return "{" + tex(n) + "}" }

func formula(n *markup.Node) string {
	e := n.Child("e")
	switch n.Name {
	case "r":
		return mathRun(n)
	case "f":
		num, den := n.Child("num"), n.Child("den")
		switch n.Child("fPr", "type").Attr("val") {
		case "noBar":
			return `\binom` + group(num) + group(den)
		case "lin":
			return tex(num) + "/" + tex(den)
		}
		return `\frac` + group(num) + group(den)
	case "sSup":
		return tex(e) + "^" + group(n.Child("sup"))
	case "sSub":
		return tex(e) + "_" + group(n.Child("sub"))
	case "sSubSup":
		return tex(e) + "_" + group(n.Child("sub")) + "^" + group(n.Child("sup"))
	case "sPre":
		return "{}_" + group(n.Child("sub")) + "^" + group(n.Child("sup")) + tex(e)
	case "rad":
		if deg := tex(n.Child("deg")); deg != "" && !on(n.Child("radPr", "degHide")) {
			return `\sqrt[` + deg + "]" + group(e)
		}
		return `\sqrt` + group(e)
	case "nary":
		return nary(n)
	case "d":
		return delimited(n)
	case "m":
		row := func(r *markup.Node) string { return joined(r, "e", tex, " & ") }
		return `\begin{matrix}` + joined(n, "mr", row, ` \\ `) + `\end{matrix}`
	case "eqArr":
		return `\begin{aligned}` + joined(n, "e", tex, ` \\ `) + `\end{aligned}`
	case "func":
		return texmath.Function(tex(n.Child("fName"))) + group(e)
	case "limLow":
		return texmath.Function(tex(e)) + "_" + group(n.Child("lim"))
	case "limUpp":
		return texmath.Function(tex(e)) + "^" + group(n.Child("lim"))
	case "acc":
		return cmp.Or(texmath.Accents[n.Child("accPr", "chr").Attr("val")], `\hat`) + group(e)
	case "bar":
		if n.Child("barPr", "pos").Attr("val") == "top" {
			return `\overline` + group(e)
		}
		return `\underline` + group(e)
	case "groupChr":
		if n.Child("groupChrPr", "pos").Attr("val") == "top" {
			return `\overbrace` + group(e)
		}
		return `\underbrace` + group(e)
	case "borderBox":
		return `\boxed` + group(e)
	}
	if strings.HasSuffix(n.Name, "Pr") {
		return ""
	}
	return tex(n)
}

func nary(n *markup.Node) string {
	pr := n.Child("naryPr")
	op := `\int`
	if c := pr.Child("chr"); c != nil {
		op = cmp.Or(texmath.Text(c.Attr("val")), op)
	}
	op = strings.TrimSpace(op)
	if s := tex(n.Child("sub")); s != "" {
		op += "_{" + s + "}"
	}
	if s := tex(n.Child("sup")); s != "" {
		op += "^{" + s + "}"
	}
	return op + " " + tex(n.Child("e"))
}

func delimited(n *markup.Node) string {
	pr := n.Child("dPr")
	mark := func(name, otherwise string) string {
		v, ok := pr.Child(name).Lookup("val")
		if !ok {
			v = otherwise
		}
		switch v {
		case "":
			return "."
		case "{", "}":
			return `\` + v
		case "‖":
			return `\|`
		case "⟨", "〈":
			return `\langle `
		case "⟩", "〉":
			return `\rangle `
		}
		return v
	}
	return `\left` + mark("begChr", "(") + joined(n, "e", tex, mark("sepChr", "|")) + `\right` + mark("endChr", ")")
}

// joined is the TeX of the children of a name, with a separator between.
func joined(n *markup.Node, name string, tex func(*markup.Node) string, separator string) string {
	var parts []string
	for c := range n.Children {
		if c.Name == name {
			parts = append(parts, tex(c))
		}
	}
	return strings.Join(parts, separator)
}

func mathRun(n *markup.Node) string {
	var b strings.Builder
	for c := range n.Children {
		if c.Name == "t" {
			b.WriteString(texmath.Text(c.Content()))
		}
	}
	if n.Child("rPr", "nor") != nil && strings.ContainsAny(b.String(), " ") {
		return `\text{` + b.String() + "}"
	}
	return b.String()
}
