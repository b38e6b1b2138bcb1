package convert

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/markdown/charset"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
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
	case containers[named] != family(found):
		if containers[named] == "zip" && found == "compound" {
			if doc.Encrypted(d.Data) {
				return doc.Fail(doc.KindLocked, "it is encrypted; save it without a password")
			}
		}
		return doc.Fail(doc.KindCorrupt, "its content is %s, not %s; rename it, or say what it is with --type",
			describe(found, d.Data), named)
	}
	return nil
}

// containers says what is at the outside of a type; what is not listed is text.
var containers = map[string]string{
	"docx": "zip", "pptx": "zip", "xlsx": "zip", "epub": "zip", "zip": "zip", "odt": "zip", "ods": "zip", "odp": "zip",
	"pdf": "pdf",
	"msg": "compound", "doc": "compound", "xls": "compound", "ppt": "compound", "rtf": "rtf", "image": "image",
}

func family(found string) string {
	if c, ok := containers[found]; ok {
		return c
	}
	if found == "compound" || found == "binary" {
		return found
	}
	return "" // text
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

// content tells what a document is by its first bytes.
func content(data []byte) string {
	head := data[:min(len(data), 4096)]
	switch {
	case bytes.Contains(head[:min(len(head), 1024)], []byte("%PDF-")):
		return "pdf"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		return archive(data)
	case bytes.HasPrefix(head, []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")):
		return "compound"
	case bytes.HasPrefix(head, []byte(`{\rtf`)):
		return "rtf"
	}
	for _, magic := range []string{"\x89PNG", "\xff\xd8\xff", "GIF8", "II*\x00", "MM\x00*", "BM\x00", "RIFF"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return "image"
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
		if strings.HasPrefix(strings.TrimLeft(start[1:], " \r\n\t"), `"`) ||
			strings.HasPrefix(strings.TrimLeft(start[1:], " \r\n\t"), "{") {
			return "json"
		}
	}
	return "txt"
}

// archive tells which kind of document a zip file is, by the names in it.
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
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return true
	}
	zeros, controls := 0, 0
	for _, c := range head {
		switch {
		case c == 0:
			zeros++
		case c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != 0x1b && c != 0x08:
			controls++
		}
	}
	if zeros > 0 { // UTF-16 without a mark has one in every other place
		text := charset.Decode(head, "")
		return zeros*3 > len(head) && !strings.ContainsRune(text, 0) && utf8.ValidString(text)
	}
	return controls*50 <= len(head)
}
