package convert

import (
	"encoding/binary"
	"strings"
	"testing"
)

func zipFormat(t testing.TB) format {
	inner := string(zipped(t, "word/document.xml", word("<w:p><w:r><w:t>inner text</w:t></w:r></w:p>")))
	return format{names: "zip", kept: proofs("a.zip",
		"every document in it under a heading", string(zipped(t, "x/a.docx", inner, "../../b.txt", "slip")),
		"## x/a.docx\n\ninner text\n\n## b.txt\n\nslip\n",
		"names and faults of documents that cannot be read", string(zipped(t, "bad.docx", "no docx", "b.txt", "text")),
		"## bad.docx\n\n*not converted: its content is txt, not docx; rename it, or say what it is with --type*\n\n"+
			"## b.txt\n\ntext\n",
		"names of files that are no documents", string(zipped(t, "c.png", "\x89PNG\r\n\x1a\n")),
		"## c.png\n\n*not converted: text in pictures needs Tesseract (tesseract), which is not installed*\n",
	)}
}

func epubFormat(t testing.TB) format {
	book := func(meta, chapter string) string {
		return string(zipped(t, "mimetype", "application/epub+zip", "META-INF/container.xml",
			`<container><rootfiles><rootfile full-path="O/c.opf"/></rootfiles></container>`,
			"O/c.opf", `<package><metadata>`+meta+`</metadata><manifest><item id="b" href="b.xhtml"/>`+
				`<item id="a" href="a.xhtml"/></manifest><spine><itemref idref="a"/><itemref idref="b"/></spine></package>`,
			"O/a.xhtml", "<html><body><h1>A</h1></body></html>", "O/b.xhtml", chapter))
	}
	const b = "<html><body><p>B</p></body></html>"
	return format{
		names: "epub",
		kept: proofs("a.epub",
			"title", book("<dc:title>Book</dc:title>", b), "# Book\n\n# A\n\nB\n",
			"authors", book("<dc:creator>Ann</dc:creator>", b), "**Author:** Ann\n\n# A\n\nB\n",
			"chapters in order", book("", b), "# A\n\nB\n",
			"footnotes", book("", `<p>B<a epub:type="noteref" href="#n"><sup>1</sup></a><aside epub:type="footnote" id="n">`+
				`<p><a href="#r">1</a> One.<p>Two. <a role="doc-backlink" href="#r">↩</a></aside><p>C`),
			"# A\n\nB[^b-n]\n\n[^b-n]: One.\n    \n    Two.\n\nC\n",
			"pictures by their alt text", book("", `<p><img alt="dot" src="data:image/png;base64,iVBORw0KGgo="/>`),
			"# A\n\n![dot](data:image/png)\n",
		),
		lost: proofs("a.epub", "styles", book("", "<html><head><style>p{}</style></head><body><p>B</p></body></html>"),
			"# A\n\nB\n", "links within the book", book("", `<p><a href="a.xhtml#x">A</a> <a href="http://a.example/">out</a>`),
			"# A\n\nA [out](http://a.example/)\n"),
	}
}

func mailFormat(t testing.TB) format {
	const (
		header, attached = "header", "converted attachments"
		part             = "\r\n--b\r\nContent-Type: "
		table            = "\n\n## Attachment: t.csv\n\n| a | b |\n| --- | --- |\n"
		outlook          = "__substg1.0_"
		file             = "__attach_version1.0_#00000000/__substg1.0_"
	)
	multipart := func(parts ...string) string {
		return "Content-Type: multipart/mixed; boundary=b\r\n" + part + strings.Join(parts, part) + "\r\n--b--\r\n"
	}
	html := "text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<p>a=3Db</p>"
	subject := [2]string{outlook + "0037001F", utf16le("Hé")}
	text := [2]string{outlook + "1000001F", utf16le("Hello,\r\nAnn\x00")}
	sent := make([]byte, 48) // 32 of a header, then one property: the time, in ticks of 100 ns since 1601
	binary.LittleEndian.PutUint32(sent[32:], 0x0039_0040)
	binary.LittleEndian.PutUint64(sent[40:], (1_705_276_800+11_644_473_600)*10_000_000)
	return format{
		names: "eml, msg, mht, mbox",
		kept: []proof{
			{header, "a.eml", "From: =?iso-8859-1?Q?J=F6rg?= <j@example.com>\r\nSubject: =?utf-8?B?SMOp?=\r\n\r\nx\r\n",
				"# Hé\n\n**From:** Jörg \\<j@example.com>\n\nx\n"},
			{header, "a.msg", compound(subject, [2]string{outlook + "0C1A001F", utf16le("Jörg")},
				[2]string{outlook + "5D01001F", utf16le("j@example.com")}, [2]string{outlook + "0E04001E", "Ann\x00"},
				[2]string{"__properties_version1.0", string(sent)}, text),
				"# Hé\n\n**From:** Jörg \\<j@example.com>  \n**To:** Ann  \n**Date:** Mon, 15 Jan 2024 00:00:00 +0000\n\n" +
					"Hello,\nAnn\n"},
			{"text", "a.eml", multipart("text/plain\r\n\r\nplain", html, "text/html\r\n\r\n<p>more", "text/plain\r\n\r\nend"),
				"plain\n\na=b\n\nmore\n\nend\n"},
			{"text", "a.eml", multipart("multipart/alternative; boundary=a\r\n\r\n--a\r\n\r\nplain\r\n--a\r\nContent-Type: "+
				html+"\r\n--a\r\nContent-Type: text/calendar\r\n\r\nx\r\n--a--", "text/plain\r\n\r\nend"), "a=b\n\nend\n"},
			{"text", "a.eml", strings.Replace(multipart("text/plain\r\n\r\nplain",
				"text/html\r\n\r\n<style>p{}</style><img src=x>"), "mixed", "alternative", 1), "plain\n"},
			{"text", "a.eml", "Content-Type: multipart/mixed; boundary=b\r\n\r\n--c\r\n\r\nx\r\n", "--c\n\nx\n"},
			{"text", "a.mht", strings.Replace(multipart("text/html\r\nContent-Location: http://a.example/x/y\r\n\r\n"+
				`<a href="z">a</a>`, "image/png\r\nContent-Location: http://a.example/i\r\n\r\nx"), "mixed", "related",
				1), "[a](http://a.example/x/z)\n"},
			{"text", "a.mbox", "From a Mon\r\nSubject: One\r\n\r\nx\r\n>From y\r\n\r\nFrom b Tue\nSubject: Two\n\nz",
				"# One\n\nx\nFrom y\n\n# Two\n\nz\n"},
			{"text", "a.eml", "Content-Type: text/plain; format=flowed\r\n\r\none \r\nline\r\n", "one line\n"},
			{"text", "a.msg", compound(text, [2]string{outlook + "10130102", "<p>Hello, <b>Ann</b>"}),
				"Hello, **Ann**\n"},
			{"text", "a.msg", compound(text, [2]string{outlook + "10090102", "\x00\x00\x00\x00\xff\x00\x00\x00MELA\x00\x00\x00\x00" +
				`{\rtf1\fromhtml1{\*\htmltag <b>}Hello{\*\htmltag </b>}}`}), "**Hello**\n"},
			{"text", "a.msg", compound(text, [2]string{outlook + "10090102", "unknown"}), "Hello,\nAnn\n"},
			{attached, "a.eml", multipart(html, "text/csv; name=t.csv\r\nContent-Disposition: attachment\r\n\r\na,b"),
				"a=b" + table},
			{attached, "a.eml", "\r\nx\r\nbegin 644 a b.txt\r\n%:&5L;&\\ \r\n`\r\nend\r\nbegin 1 y\r\n",
				"x\nbegin 1 y\n\n## Attachment: a b.txt\n\nhello\n"},
			{attached, "a.eml", multipart(html, "text/csv\r\n\r\na,b"), strings.Replace("a=b"+table, " t.", " table.", 1)},
			{attached, "a.eml", strings.Replace(multipart("\r\n\r\nSubject: S\r\n\r\nx"), "mixed", "digest", 1),
				"## Attachment: message.eml\n\n# S\n\nx\n"},
			{attached, "a.eml", multipart(html, "message/delivery-status\r\n\r\nStatus: 5.1.1"),
				"a=b\n\n## Attachment\n\nStatus: 5.1.1\n"},
			{attached, "a.msg", compound(text, [2]string{file + "37010102", "a,b\n"},
				[2]string{file + "3704001F", utf16le("T.CSV")}, [2]string{file + "3707001F", utf16le("t.csv")}),
				"Hello,\nAnn" + table},
		},
		lost: proofs("a.eml", "pictures within the text",
			multipart(html, "image/png\r\nContent-Id: <1>\r\n\r\nx"), "a=b\n", "signatures",
			multipart(html, "application/pkcs7-signature; name=smime.p7s\r\n\r\nx"), "a=b\n", "styles",
			multipart(html, "text/css\r\n\r\np{}"), "a=b\n"),
	}
}
