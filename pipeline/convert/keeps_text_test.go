package convert

func htmlFormat() format {
	return format{
		names: "html",
		kept: proofs("a.html",
			"headings", "<title>T</title><h2>A <b>b</b></h2><p>x", "# T\n\n## A b\n\nx\n",
			"emphasis", "<p>a <b>b</b> <em>c</em> <del>d</del>", "a **b** *c* ~~d~~\n",
			"lists", "<ul><li>a<ol><li>b</ol></ul>", "- a\n  1. b\n",
			"tables with spans",
			"<table><tr><th colspan=2>a<th>b<tr><td rowspan=2>c<td>d<td>e<tr><td>f<td>g</table>",
			"| a |  | b |\n| --- | --- | --- |\n| c | d | e |\n|  | f | g |\n",
			"links", `<a href="http://a.example/?x=1&amp;y=2">a</a>`, "[a](http://a.example/?x=1&y=2)\n",
			"alt text", `<img alt="A cat" src=cat.png>`, "![A cat](cat.png)\n",
			"code", "<pre><code class=language-go>a  b</code></pre>use <code>c</code>",
			"```go\na  b\n```\n\nuse `c`\n",
			"quotes", "<blockquote>said</blockquote>", "> said\n",
			"definition lists", "<dl><dt>a<dd>b</dl>", "**a**\n: b\n",
			"values of forms", `<form>Name <input type=text value=Ann></form>`, "Name Ann\n",
			"text in drawings", `<svg><title>t</title><text>a <tspan>b</tspan></text><text>c</text></svg>`, "a b\n\nc\n",
			"TeX formulas", `<math display=block><semantics><mi>x</mi>`+
				`<annotation encoding="application/x-tex">x^2</annotation></semantics></math>`, "$$x^2$$\n",
			"text in any charset", "<meta charset=shift_jis><p>\x93\xfa\x96{", "日本\n",
		),
		lost: proofs("a.html",
			"scripts", "<script>x()</script><p onclick='y()'>a", "a\n",
			"what is not shown", "<body style='display:none'><p style='color:red; display: none'>x<b>y</b></p><p hidden>z<p>a"+
				"<span style=visibility:hidden>b</span>", "a\n",
			"styles", "<style>p{color:red}</style><p style='color:red'>a", "a\n",
		),
	}
}

func csvFormat() format {
	const table = "| a | b |\n| --- | --- |\n| 1 | 2 |\n"
	return format{names: "csv, tsv", kept: append(proofs("a.csv",
		"a table", "a,b\n1,2\n", table,
		"any separator", "a;b\n1;\"x;\ny|\"\n", "| a | b |\n| --- | --- |\n| 1 | x;<br>y\\| |\n",
		"any separator", "name;price\nrope;1,50\ntape, wide;2,75\n",
		"| name | price |\n| --- | --- |\n| rope | 1,50 |\n| tape, wide | 2,75 |\n",
		"any separator", "name\tsize\nrope, long\t2\n", "| name | size |\n| --- | --- |\n| rope, long | 2 |\n",
		"any separator", "# by Ada, 2024\na;b\n1;2\n", "| # by Ada, 2024 |  |\n| --- | --- |\n| a | b |\n| 1 | 2 |\n",
		"any separator", "A title\na,b\n1,2\n", "| A title |  |\n| --- | --- |\n| a | b |\n| 1 | 2 |\n",
		"text in any charset", "caf\xe9,b\n1,2\n", "| café | b |\n| --- | --- |\n| 1 | 2 |\n",
	), proofs("a.tsv", "a table", "a\tb\n1\t2\n", table)...)}
}

func jsonFormat() format {
	const text, feed = "the text itself", "feeds as headings and texts"
	return format{names: "json, xml", kept: []proof{
		{text, "a.json", `{"n":1.50,"s":"\u4e2d\ud83d\ude00\n"}`,
			"```json\n{\n  \"n\": 1.50,\n  \"s\": \"中😀\\n\"\n}\n```\n"},
		{text, "a.jsonl", "{\"a\":1}\n{\"a\":2}\n", "```json\n{\"a\":1}\n{\"a\":2}\n```\n"},
		{text, "a.xml", "<a><b>c</b></a>", "```xml\n<a><b>c</b></a>\n```\n"},
		{feed, "a.rss", "<rss><channel><title>News</title><item><title>One</title><link>http://a.example/</link>" +
			"<pubDate>Mon</pubDate><description>&lt;p&gt;Text&lt;/p&gt;</description></item></channel></rss>",
			"# News\n\n## [One](http://a.example/)\n\nMon\n\nText\n"},
		{feed, "a.atom", `<feed><title>News</title><entry><title>One</title><content type="xhtml"><div><p>a &lt; ` +
			`<b>b</b> <a href="http://a.example/?x=1&amp;y=2">c</a></p></div></content></entry></feed>`,
			"# News\n\n## One\n\na < **b** [c](http://a.example/?x=1&y=2)\n"},
	}}
}

func notebookFormat() format {
	cells := func(list string) string { return `{"cells":[` + list + `],"metadata":{}}` }
	shows := func(data string) string {
		return cells(`{"cell_type":"code","source":"1+1","outputs":[{"output_type":"execute_result","data":{` + data +
			`}}]}`)
	}
	const code = "```python\n1+1\n```\n\n"
	return format{
		names: "ipynb",
		kept: proofs("a.ipynb",
			"text cells", cells(`{"cell_type":"markdown","source":["# A\n","b"]}`), "# A\nb\n",
			"code", cells(`{"cell_type":"code","source":["1\n","2"]}`), "```python\n1\n2\n```\n",
			"text output", shows(`"text/plain":["2"]`), code+"```\n2\n```\n",
			"text output", cells(`{"cell_type":"code","source":"","outputs":[{"traceback":["at"]},{"latex":["$x$"]},`+
				`{"html":"<b>y</b>"},{"data":{"image/svg+xml":"<svg><text>z</text></svg>"}},{"data":{"application/json":[1]}}]}`),
			"```\nat\n```\n\n$x$\n\n**y**\n\nz\n\n```\n[1]\n```\n",
			"tables in the output", shows(`"text/plain":"2","text/html":"<table><tr><th>a<th>b<tr><td>1<td>2</table>"`),
			code+"| a | b |\n| --- | --- |\n| 1 | 2 |\n",
		),
		lost: proofs("a.ipynb", "pictures", shows(`"image/png":"iVBORw0KGgo=","text/plain":"a figure"`),
			code+"```\na figure\n```\n"),
	}
}

func rtfFormat() format {
	return format{
		names: "rtf",
		kept: proofs("a.rtf",
			"headings", `{\rtf1{\stylesheet{\s1 heading 1;}}\pard\s1 Title\par\pard text\par}`, "# Title\n\ntext\n",
			"text in any charset", `{\rtf1\ansi\ansicpg1252 caf\'e9 \u20013?\par}`, "café 中\n",
			"emphasis", `{\rtf1 a {\b\*\cs7 bold}\par}`, "a **bold**\n",
			"the page that it is made of", `{\rtf1\ansi\fromhtml1{\*\htmltag64 <style>p\{\}</style><table><tr><td>}\htmlrtf {\b `+
				`\htmlrtf0 a < \'e9{\*\htmltag92 </td><td>}\htmlrtf }\tab\htmlrtf0 b{\*\mhtmltag64 x}\line c}`,
			"| a < é | b c |\n| --- | --- |\n",
			"changes as accepted", `{\rtf1 {\deleted old}{\revised new}\column text\par}`, "new text\n",
			"nested lists", `{\rtf1{\listtext\pard 1.\tab}\pard\ls1 one\par{\listtext\pard a.\tab}`+
				`\pard\ilvl1\ls1 sub\par{\listtext 2.\tab}\pard two\par\pard x\par`+
				`\pard{\pntext\'B7\tab}{\*\pn x}\fi-720 bullet\par}`,
			"1. one\n   - a. sub\n2. two\n\nx\n\n- bullet\n",
			"numbers of lists", `{\rtf1{\*\listtable{\list{\listlevel\levelnfc0\levelstartat3{\leveltext x;}}`+
				`{\listlevel\levelnfc4\levelstartat1}\listid7}{\list{\listlevel\levelnfc23}\listid8}}`+
				`{\*\listoverridetable{\listoverride\listid7\ls1}{\listoverride\listid8\ls2}}`+
				`\pard\ls1 one\par\pard\ls1\ilvl1 sub\par\pard\ls1 two\par\pard\ls2 bullet\par\pard end\par}`,
			"3. one\n   - a. sub\n4. two\n\n- bullet\n\nend\n",
			"numbers of lists", `{\rtf1{\*\listtable{\list{\listlevel\levelnfc4{\leveltext\'02\'00);}{\levelnumbers\'01;}}`+
				`{\listlevel\levelnfc1{\leveltext\'05(\'00.\'01);}{\levelnumbers\'02\'04;}}`+
				`{\listlevel\levelnfc0{\leveltext\'02\'02);}{\levelnumbers\'01;}}\listid7}}`+
				`{\*\listoverridetable{\listoverride\listid7\ls1}}\pard\ls1 one\par two\par\pard\ls1\ilvl1 sub\par`+
				`\pard\ls1\ilvl2 deep\par\pard end\par}`,
			"- a) one\n- b) two\n  - (b.I) sub\n    1. deep\n\nend\n",
			"drop caps", `{\rtf1\pard\dropcapli3\dropcapt1 {\b O}\par\pard nce\par\pard x\par}`, "**O**nce\n\nx\n",
			"tables", `{\rtf1\trowd\pard\intbl a\cell b\cell\row\pard\intbl 1\cell 2\cell\row\pard end\par}`,
			"| a | b |\n| --- | --- |\n| 1 | 2 |\n\nend\n",
			"links", `{\rtf1{\field{\*\fldinst HYPERLINK "http://a.example/"}{\fldrslt site}}\par}`,
			"[site](http://a.example/)\n",
			"links", `{\rtf1{\field{\*\fldinst HYPERLINK \\l "mark"}{\fldrslt below}}\par}`, "below\n",
			"footnotes", `{\rtf1 x{\footnote \pard{\super\chftn} The note.}y\par}`, "x[^1]y\n\n[^1]: The note.\n",
			"comments", `{\rtf1 x{\*\atnid A}{\*\atnauthor Ann}\chatn{\*\annotation{\*\atndate 1}Really?}y\par}`,
			"x[^1]y\n\n[^1]: Ann: Really?\n",
			"fields of forms", `{\rtf1{\field{\*\fldinst FORMCHECKBOX{\*\formfield{\fftype1\ffres25\ffdefres1{\*\ffname A}}}}`+
				`{\fldrslt }}done\par{\field{\*\fldinst FORMCHECKBOX{\*\formfield{\fftype1\ffres0\ffdefres1}}}}open\par`+
				`{\field{\*\fldinst FORMDROPDOWN{\*\formfield{\fftype2\ffres1{\*\ffl red}{\*\ffl green}}}}{\fldrslt }}}`,
			"[x] done\n\n[ ] open\n\ngreen\n",
			"symbols and formulas of fields", `{\rtf1 x{\field{\*\fldinst SYMBOL 97 \\f "Symbol" \\s 12}} = `+
				`{\field{\*\fldinst{EQ \\r(3,\\f(1,2))}}}}`, "xα = $\\sqrt[3]{\\frac{1}{2}}$\n",
			"drawings and objects", `{\rtf1{\*\do\dobxpage{\dptxbx{\dptxbxtext\pard box\par}}}{\object{\*\objdata 01}`+
				`{\result object\par}}{\shp{\*\shpinst{\shptxt shape\par}}{\shprslt{\*\do{\dptxbx{\dptxbxtext shape}}}}}}`,
			"box\n\nobject\n\nshape\n",
			"quotes", `{\rtf1{\stylesheet{\s1 Intense Quote;}}\pard\s1 said\par\pard text\par}`, "> said\n\ntext\n",
			"alt text",
			`{\rtf1 a {\*\shppict{\pict{\*\picprop{\sp{\sn wzDescription}{\sv A cat}}{\sp{\sn wzName}{\sv x}}}`+
				`\pngblip 8950}}{\nonshppict{\pict{\*\picprop{\sp{\sn wzDescription}{\sv A cat}}}\wmetafile8 01}}\par}`,
			"a ![A cat]()\n",
		),
		lost: proofs("a.rtf", "pictures", `{\rtf1 a{\pict\pngblip 89504e470d0a1a0a}b\par}`, "ab\n"),
	}
}
