// Package texmath writes formulas in TeX: characters, names of functions, and MathML.
package texmath

import (
	"strings"

	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

// MathML makes TeX of the content of an element of MathML.
func MathML(n *markup.Node) string {
	var b strings.Builder
	for c := n.First; c != nil; c = c.Next {
		if c.Name == "" {
			b.WriteString(Text(strings.TrimSpace(c.Text)))
		} else {
			b.WriteString(element(c))
		}
	}
	return strings.TrimSpace(b.String())
}

func element(n *markup.Node) string {
	// of is the TeX of the i-th child.
	of := func(i int) string {
		for c := range n.Children {
			if i--; i < 0 {
				return strings.TrimSpace(element(c))
			}
		}
		return ""
	}
	group := func(i int) string { return "{" + of(i) + "}" }
	switch n.Name {
	case "mi":
		if f := Function(strings.TrimSpace(n.Content())); strings.HasPrefix(f, `\`) {
			return f + " "
		}
		return Text(strings.TrimSpace(n.Content()))
	case "mn", "mo":
		return Text(strings.TrimSpace(n.Content()))
	case "mtext", "ms":
		return `\text{` + n.Content() + "}"
	case "mspace":
		return " "
	case "mfrac":
		return `\frac` + group(0) + group(1)
	case "msqrt":
		return `\sqrt{` + MathML(n) + "}"
	case "mroot":
		return `\sqrt[` + of(1) + "]" + group(0)
	case "msup":
		return base(of(0)) + "^" + group(1)
	case "msub":
		return base(of(0)) + "_" + group(1)
	case "msubsup", "munderover":
		return base(of(0)) + "_" + group(1) + "^" + group(2)
	case "munder":
		return base(of(0)) + "_" + group(1)
	case "mover":
		if accent := Accents[of(1)]; accent != "" {
			return accent + group(0)
		}
		return base(of(0)) + "^" + group(1)
	case "mfenced":
		opening, isOpen := n.Lookup("open")
		closing, isClosed := n.Lookup("close")
		var parts []string
		for c := range n.Children {
			parts = append(parts, strings.TrimSpace(element(c)))
		}
		if !isOpen {
			opening = "("
		}
		if !isClosed {
			closing = ")"
		}
		return Text(opening) + strings.Join(parts, ",") + Text(closing)
	case "mtable":
		var rows []string
		for r := range n.Children {
			var cells []string
			for c := range r.Children {
				cells = append(cells, MathML(c))
			}
			rows = append(rows, strings.Join(cells, " & "))
		}
		return `\begin{matrix}` + strings.Join(rows, ` \\ `) + `\end{matrix}`
	case "annotation", "annotation-xml", "mphantom":
		return ""
	}
	return MathML(n)
}

// base is what an index stands at: more than one character is a group, unless it is one command.
func base(text string) string {
	if len([]rune(text)) < 2 || text[0] == '\\' && !strings.ContainsAny(text[1:], `\ {}^_`) {
		return text
	}
	return "{" + text + "}"
}

// Accents are the commands of characters that stand over others.
var Accents = map[string]string{"̃": `\tilde`, "~": `\tilde`, "̄": `\bar`, "̅": `\bar`, "¯": `\bar`, "⃗": `\vec`,
	"̇": `\dot`, "̈": `\ddot`, "^": `\hat`, "‾": `\overline`, `\to`: `\vec`}

// Function is the name of a function that TeX knows.
func Function(name string) string {
	switch name {
	case "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "log", "ln",
		"exp", "lim", "max", "min", "sup", "inf", "det", "gcd":
		return `\` + name
	}
	return name
}

var symbols = strings.NewReplacer(
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
	"…", `\dots `, "⋯", `\cdots `, "′", "'", "−", "-", "%", `\%`, "#", `\#`, "&", `\&`, "ℝ", `\mathbb{R}`, "ℕ", `\mathbb{N}`,
	"ℤ", `\mathbb{Z}`, "ℂ", `\mathbb{C}`,
	"{", `\{`, "}", `\}`, "\u2061", "", // function application, invisible
)

// Text writes characters as TeX does. Letters of the mathematical alphabets become plain ones.
func Text(t string) string {
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
	return symbols.Replace(t)
}
