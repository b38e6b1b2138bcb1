package convert

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
)

// identify sets the type of a document, and refuses one whose content is of another kind than its name says.
func identify(d *doc.Document) error {
	named := d.Type
	if t := extensions[named]; t != "" {
		named = t
	}
	if named == "" {
		named = typeOf(d.Name)
	}
	found := content(d.Data)
	d.Type = named
	switch {
	case named == "":
		d.Type = found
		if found == "binary" || found == "compound" {
			return doc.Fail(doc.KindUnsupported, "neither its name nor its content says what it is")
		}
	case (named == "doc" || named == "xls" || named == "ppt") && found != "compound" && found != "binary":
		d.Type = found // Word and Excel open these under any name
	case types[named].container != family(found):
		if types[named].container == "zip" && doc.Encrypted(d.Data) {
			return doc.Fail(doc.KindLocked, "it is encrypted; save it without a password")
		}
		return doc.Fail(doc.KindCorrupt, "its content is %s, not %s; rename it, or say what it is with --type",
			describe(found, d.Data), named)
	}
	return nil
}

// family is what is at the outside of content.
func family(found string) string {
	if found == "compound" || found == "binary" {
		return found
	}
	return types[found].container
}

func describe(found string, data []byte) string {
	switch {
	case len(data) == 0:
		return "empty"
	case found == "binary":
		return "of an unknown kind"
	}
	return found
}

// magic is what files of some kinds begin with.
var magic = [][2]string{
	{"PK\x03\x04", "zip"}, {"PK\x05\x06", "zip"}, {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "compound"}, {`{\rtf`, "rtf"},
	{"\x89PNG", "image"}, {"\xff\xd8\xff", "image"}, {"GIF8", "image"}, {"II*\x00", "image"}, {"MM\x00*", "image"},
	{"BM\x00", "image"}, {"RIFF", "image"},
}

// content tells what a document is by its first bytes.
func content(data []byte) string {
	head := data[:min(len(data), 4096)]
	if bytes.Contains(head[:min(len(head), 1024)], []byte("%PDF-")) {
		return "pdf"
	}
	for _, m := range magic {
		switch {
		case !bytes.HasPrefix(head, []byte(m[0])):
		case m[1] == "zip":
			return archive(data)
		default:
			return m[1]
		}
	}
	if !isText(head) {
		return "binary"
	}
	start := strings.ToLower(strings.TrimSpace(charset.Decode(head, "")))
	switch {
	case strings.HasPrefix(start, "<!doctype html"), strings.HasPrefix(start, "<html"):
		return "html"
	case strings.HasPrefix(start, "<?xml"):
		return "xml"
	case len(start) > 1 && start[0] == '<' && start[1] >= 'a' && start[1] <= 'z' && strings.Contains(start, ">"):
		return "html"
	case strings.HasPrefix(start, "{") || strings.HasPrefix(start, "["):
		if strings.Contains(start, `"cells"`) && strings.Contains(start, `"cell_type"`) {
			return "ipynb"
		}
		if inner := strings.TrimLeft(start[1:], " \r\n\t"); inner != "" && (inner[0] == '"' || inner[0] == '{') {
			return "json"
		}
	}
	return "txt"
}

// archive returns which kind of document a zip file is, by the names in it.
func archive(data []byte) string {
	d := doc.Document{Data: data}
	a, err := doc.OpenZip(&d)
	if err != nil {
		return "zip"
	}
	switch mime, _ := a.Bytes("mimetype"); {
	case a.Has("word/document.xml"):
		return "docx"
	case a.Has("ppt/presentation.xml"):
		return "pptx"
	case a.Has("xl/workbook.xml"):
		return "xlsx"
	case bytes.HasPrefix(mime, []byte("application/epub")):
		return "epub"
	case bytes.Contains(mime, []byte("opendocument.text")):
		return "odt"
	case bytes.Contains(mime, []byte("opendocument.spreadsheet")):
		return "ods"
	case bytes.Contains(mime, []byte("opendocument.presentation")):
		return "odp"
	}
	return "zip"
}

// isText tells text, in any encoding, from other bytes.
func isText(head []byte) bool {
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) ||
		bytes.HasPrefix(head, []byte("\x00\x00\xfe\xff")) {
		return true
	}
	zeros, controls := 0, 0
	for _, c := range head {
		switch {
		case c == 0:
			zeros++
		case c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != 0x1b && c != 0x08 &&
			(c != 0x0e && c != 0x0f || !utf8.Valid(head)): // shifts of text in seven bits
			controls++
		}
	}
	if zeros > 0 { // UTF-16 without a mark has one in every other place
		text := charset.Decode(head, "")
		return zeros*3 > len(head) && !strings.ContainsRune(text, 0) && utf8.ValidString(text)
	}
	return controls*50 <= len(head)
}
