package ooxml

import (
	"cmp"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
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
		return function(tex(n.Child("fName"))) + group(e)
	case "limLow":
		return function(tex(e)) + "_" + group(n.Child("lim"))
	case "limUpp":
		return function(tex(e)) + "^" + group(n.Child("lim"))
	case "acc":
		return cmp.Or(accents[n.Child("accPr", "chr").Attr("val")], `\hat`) + group(e)
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
		op = cmp.Or(mathText(c.Attr("val")), op)
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

var accents = map[string]string{"̃": `\tilde`, "~": `\tilde`, "̄": `\bar`, "̅": `\bar`, "¯": `\bar`, "⃗": `\vec`,
	"̇": `\dot`, "̈": `\ddot`}

// function is the name of a function that TeX knows.
func function(name string) string {
	switch name {
	case "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "log", "ln",
		"exp", "lim", "max", "min", "sup", "inf", "det", "gcd":
		return `\` + name
	}
	return name
}

func mathRun(n *markup.Node) string {
	var b strings.Builder
	for c := range n.Children {
		if c.Name == "t" {
			b.WriteString(mathText(c.Content()))
		}
	}
	if n.Child("rPr", "nor") != nil && strings.ContainsAny(b.String(), " ") {
		return `\text{` + b.String() + "}"
	}
	return b.String()
}

var mathSymbols = strings.NewReplacer(
	"α", `\alpha `, "β", `\beta `, "γ", `\gamma `, "δ", `\delta `, "ε", `\varepsilon `, "ϵ", `\epsilon `, "ζ", `\zeta `,
	"η", `\eta `, "θ", `\theta `,
	"ι", `\iota `, "κ", `\kappa `, "λ", `\lambda `, "μ", `\mu `, "ν", `\nu `, "ξ", `\xi `, "π", `\pi `, "ρ", `\rho `,
	"σ", `\sigma `, "τ", `\tau `,
	"υ", `\upsilon `, "φ", `\varphi `, "ϕ", `\phi `, "χ", `\chi `, "ψ", `\psi `, "ω", `\omega `,
	"Γ", `\Gamma `, "Δ", `\Delta `, "Θ", `\Theta `, "Λ", `\Lambda `, "Ξ", `\Xi `, "Π", `\Pi `, "Σ", `\Sigma `, "Φ",
	`\Phi `, "Ψ", `\Psi `, "Ω", `\Omega `,
	"∑", `\sum `, "∏", `\prod `, "∫", `\int `, "∬", `\iint `, "∮", `\oint `, "∞", `\infty `, "±", `\pm `, "∓", `\mp `,
	"×", `\times `, "÷", `\div `,
	"⋅", `\cdot `, "·", `\cdot `, "≤", `\le `, "≥", `\ge `, "≠", `\ne `, "≈", `\approx `, "≡", `\equiv `, "∼", `\sim `,
	"∝", `\propto `, "→", `\to `,
	"←", `\leftarrow `, "⇒", `\Rightarrow `, "⇔", `\Leftrightarrow `, "∂", `\partial `, "∇", `\nabla `, "∈", `\in `,
	"∉", `\notin `, "⊂", `\subset `,
	"⊆", `\subseteq `, "∪", `\cup `, "∩", `\cap `, "∅", `\emptyset `, "∀", `\forall `, "∃", `\exists `, "∧", `\land `,
	"∨", `\lor `, "¬", `\neg `,
	"…", `\dots `, "⋯", `\cdots `, "′", "'", "−", "-", "%", `\%`, "#", `\#`, "ℝ", `\mathbb{R}`, "ℕ", `\mathbb{N}`, "ℤ",
	`\mathbb{Z}`, "ℂ", `\mathbb{C}`,
	"{", `\{`, "}", `\}`, "\u2061", "", // function application, invisible
)

// mathText writes characters as TeX does. Letters of the mathematical alphabets become plain ones.
func mathText(t string) string {
	t = strings.Map(func(r rune) rune {
		switch {
		case r >= 0x1d400 && r < 0x1d6a4: // bold, italic, script … A-Z a-z, 52 a style
			if i := (r - 0x1d400) % 52; i < 26 {
				return 'A' + i
			} else {
				return 'a' + i - 26
			}
		case r >= 0x1d6a8 && r < 0x1d7cb: // Greek, 58 a style
			greek := []rune("ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΘΣΤΥΦΧΨΩ∇αβγδεζηθικλμνξοπρςστυφχψω∂ϵθκφρπ")
			return greek[(r-0x1d6a8)%58]
		case r == 'ℎ':
			return 'h'
		}
		return r
	}, t)
	return mathSymbols.Replace(t)
}
