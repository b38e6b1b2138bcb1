package texmath

import (
	"testing"

	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

func TestMathML(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"<mi>x</mi><mo>=</mo><mfrac><mrow><mo>-</mo><mi>b</mi></mrow><mrow><mn>2</mn><mi>a</mi></mrow></mfrac>",
			`x=\frac{-b}{2a}`},
		{"<msup><mi>e</mi><mi>x</mi></msup>", "e^{x}"},
		{"<msubsup> <mi>x</mi> <mn>1</mn> <mn>2</mn> </msubsup>", "x_{1}^{2}"},
		{"<msup><mrow><mi>a</mi><mi>b</mi></mrow><mn>2</mn></msup>", "{ab}^{2}"},
		{"<msqrt><mn>2</mn></msqrt><mroot><mi>x</mi><mn>3</mn></mroot>", `\sqrt{2}\sqrt[3]{x}`},
		{"<munderover><mo>∑</mo><mi>i</mi><mi>n</mi></munderover><mi>i</mi>", `\sum_{i}^{n}i`},
		{"<mi>sin</mi><mi>α</mi>", `\sin \alpha`},
		{"<mover><mi>v</mi><mo>→</mo></mover><mover><mi>x</mi><mo>¯</mo></mover>", `\vec{v}\bar{x}`},
		{"<mi>A</mi><mo>&amp;</mo><mn>5%</mn>", `A\&5\%`},
		{"<mfenced><mi>a</mi><mi>b</mi></mfenced>", "(a,b)"},
		{"<mtable><mtr><mtd>1</mtd><mtd><mn>2</mn></mtd></mtr><mtr><mtd><mn>3</mn></mtd></mtr></mtable>",
			`\begin{matrix}1 & 2 \\ 3\end{matrix}`},
		{"<mtd>a<mi>b</mi> c</mtd>", "abc"},
		{"<mtext>if so</mtext><annotation>left out</annotation>", `\text{if so}`},
		{"<mover/><mfrac/><mi/>", `^{}\frac{}{}`},
	} {
		n, err := markup.Parse("<math>" + c.source + "</math>")
		if err != nil {
			t.Fatal(err)
		}
		if got := MathML(n); got != c.want {
			t.Errorf("%s\n%s, want\n%s", c.source, got, c.want)
		}
	}
}
