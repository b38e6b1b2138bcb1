package markdown_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
)

func TestHTML(t *testing.T) {
	for _, c := range []struct{ name, html, want string }{
		{"heading and text", "<h2> A <b>b</b>\n c</h2><p>one\n two</p>three", "## A b c\n\none two\n\nthree"},
		{"emphasis keeps spaces outside", "a<b> b </b>c <em><strong>d</strong></em>", "a **b** c ***d***"},
		{"emphasis over blocks", "<b><p>a</p><p>b</p></b>c", "**a**\n\n**b**\n\nc"},
		{"runs of one style are one", "<b>a</b><b>b</b>", "**ab**"},
		{"link", `<a href="/x y" title="t">a <i>b</i></a>`, `[a *b*](/x%20y "t")`},
		{"link around blocks", `<a href=u><div>a</div><div>b</div></a>`, "[a](u)\n\n[b](u)"},
		{"links side by side", `<a href=u>a</a><a href=u>b</a>`, "[a](u)[b](u)"},
		{"image", `<p>x <img alt="A b" src=i.png></p>`, "x ![A b](i.png)"},
		{"brackets", `<a href="a_(b)?c=(1)">x</a> <a href="a)">y</a> <img alt="a [b]" src=i> <img alt="a]" src=i>`,
			`[x](a_(b)?c=(1)) [y](a%29) ![a [b]](i) ![a\]](i)`},
		{"linked image", `<a href=u><img alt=A src=i></a>`, "[![A](i)](u)"},
		{"lists", "<ul><li>a<ul><li>b</li><li>c</ul><li>d</ul><p>e", "- a\n  - b\n  - c\n- d\n\ne"},
		{"ordered", "<ol start=9><li>a<li><p>b</p><p>c</p></li></ol>", "9. a\n10. b\n\n    c"},
		{"task list", "<ul><li><input type=checkbox checked> a</ul>", "- [x] a"},
		{"quote", "a<blockquote>b<p>c</p><blockquote>d</blockquote></blockquote>e", "a\n\n> b\n>\n> c\n>\n> > d\n\ne"},
		{"code", "use <code>a  *b*</code> or <code>`</code>", "use `a *b*` or `` ` ``"},
		{"pre", "<pre><code class='language-go'>a  b\n&lt;c&gt;\n</code></pre>", "```go\na  b\n<c>\n```"},
		{"lines of code", `<div style="color:red;white-space: pre;"><div>def f():</div><div>    return 1</div>#</div>b`,
			"```\ndef f():\n    return 1\n#\n```\n\nb"},
		{"wrapped text", `<div style="white-space:pre-wrap">a  b</div>`, "a b"},
		{"pre in a list", "<ul><li>a<pre>b\nc</pre></ul>", "- a\n\n  ```\n  b\n  c\n  ```"},
		{"table", "<table><tr><th>a<th>b|c<tr><td>1<br>2<td><ul><li>x<li>y</ul></table>",
			"| a | b\\|c |\n| --- | --- |\n| 1<br>2 | - x<br>- y |"},
		{"spans", "<table><tr><td colspan=2>a<td>b<tr><td rowspan=2>c<td>d<td>e<tr><td>f<td>g</table>",
			"| a |  | b |\n| --- | --- | --- |\n| c | d | e |\n|  | f | g |"},
		{"table of one column",
			"<table><tr><th>a</th></tr><tr><td>1</td></tr></table><table><tr><td>x</td></tr></table>",
			"| a |\n| --- |\n| 1 |\n\nx"},
		{"layout table", "<table><tr><td><h1>a</h1>x</td><td><table><tr><td>1<td>2</table></td></tr></table>",
			"# a\n\nx\n\n| 1 | 2 |\n| --- | --- |"},
		{"definitions", "<dl><dt>a<dd>b<dd>c<dt>d<dd>e</dl>", "**a**\n: b\n: c\n\n**d**\n: e"},
		{"raw text", "<script>if (a<b) x()</script><style>p{}</style>a<!-- b --><template>c</template>", "a"},
		{"entities", "&lt;a&gt; &amp;amp; &eacute;&nbsp;&#8212;", `\<a> &amp;amp; é —`},
		{"escapes", "2 * 3 *a* snake_case _x_ a[1] [a](b) # no", `2 * 3 \*a\* snake_case \_x\_ a[1] \[a](b) # no`},
		{"escapes at the beginning", "<p># a<p>1. b<p>- c<p>-5<p>3.14", "\\# a\n\n1\\. b\n\n\\- c\n\n-5\n\n3.14"},
		{"misnested", "<b>a<i>b</b>c</i>d", "**a*b***cd"},
		{"broken", "<p>a < b <x <a href='u>v", "a < b v"},
		{"rule and break", "a<br>b<hr>c", "a  \nb\n\n---\n\nc"},
		{"formula",
			`<math display=block><semantics><mi>x</mi><annotation encoding="application/x-tex">x^2</annotation></semantics></math>`,
			"$$x^2$$"},
		{"superscript", "x<sup>2</sup> H<sub>2</sub>O 1<sup>st</sup>", "x² H2O 1st"},
		{"drawings", "a<svg><title>t</title><style>b</style><g><text>c <tspan>d</tspan></text></g> <text>e</text><path/>" +
			"</svg><svg><foreignObject><p>f</p></foreignObject></svg><svg><path><p>g", "a\n\nc d\n\ne\n\nf\n\ng"},
		{"documents within", "a<iframe srcdoc='&lt;p&gt;b'></iframe><map><area alt=c href=d><area href=e></map>" +
			"<frame src=f title=g>", "a\n\nb\n\n[c](d)[g](f)"},
		{"forms", "<input value=a> <input type=hidden value=b> <input type=image alt=c> <textarea>d</textarea>", "a c d"},
		{"hidden", "<p hidden>a<p>b<div style='display:none'>c</div><template>d</template><object>e</object>", "b"},
		{"nothing but hidden", "<p hidden>a<div style='display:none'>c</div><template>d</template><object>e</object>" +
			"<script>f</script>", "a\n\nc\n\nd\n\ne"},
		{"shadow roots", "<x-y><template shadowrootmode=open><p>a</template></x-y><template>b</template>", "a"},
		{"strike", "<del>a</del> b", "~~a~~ b"},
		{"data image", `<img alt=a src="data:image/png;base64,AAAA">`, "![a](data:image/png)"},
		{"paragraph in heading", "<h1><p>a</p></h1>b", "# a\n\nb"},
	} {
		got, _ := markdown.FromHTML(c.html, markdown.Options{})
		if strings.TrimRight(got, "\n") != c.want {
			t.Errorf("%s:\ngot  %q\nwant %q", c.name, got, c.want)
		}
	}
}

func TestHTMLTitleAndBase(t *testing.T) {
	base, _ := url.Parse("http://example.com/a/")
	got, title := markdown.FromHTML("<title>A &amp;\n b</title><a href=c>d</a>", markdown.Options{Base: base})
	if title != "A & b" || got != "[d](http://example.com/a/c)\n" {
		t.Errorf("%q %q", title, got)
	}
}

// Hostile pages cost time and memory in proportion to their size.
func TestHTMLOfHostilePages(t *testing.T) {
	for _, piece := range []string{"<div>", "<table><tr><td>", "<ul><li>", "<b>", "<blockquote>", "<a href=x>", "<p",
		"<!--", "</div>", "&", "<td colspan=100000 rowspan=100000>", "<sup>x", "<dl><dt>a<dd>", "<pre>", "<code>",
		"<span><p>"} {
		start := time.Now()
		got, _ := markdown.FromHTML(strings.Repeat(piece, 20_000)+"end", markdown.Options{})
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%q: %v", piece, d)
		}
		if len(got) > 100<<20 {
			t.Errorf("%q: %d bytes", piece, len(got))
		}
	}
}

func BenchmarkHTML(b *testing.B) {
	var s strings.Builder
	for i := 0; s.Len() < 394_000; i++ {
		fmt.Fprintf(&s,
			`<div class="section" id="s%d"><h2 class="title">Section %d</h2><p class="para">Some <b>bold</b> and
<a class="reference internal" href="page%d.html#x">a link &amp; text</a> with words that go on for a while so that there is
text.</p><ul><li>one</li><li>two <code>x</code></li></ul><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></div>
`, i, i, i)
	}
	b.SetBytes(int64(s.Len()))
	for b.Loop() {
		markdown.FromHTML(s.String(), markdown.Options{})
	}
}

func TestKaTeXIsWrittenOnce(t *testing.T) {
	got, _ := markdown.FromHTML(`<p>a <span class="katex"><span class="katex-mathml"><math><semantics><mi>x</mi>`+
		`<annotation encoding="application/x-tex">e^x</annotation></semantics></math></span>`+
		`<span class="katex-html" aria-hidden="true"><span>e</span><span>x</span></span></span> b`, markdown.Options{})
	if got != "a $e^x$ b\n" {
		t.Errorf("%q", got)
	}
}
