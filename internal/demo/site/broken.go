package site

import "encoding/binary"

// BrokenMarker is in the body of every page of [Site.Broken], and in no other.
const BrokenMarker = "<!-- page deliberately broken -->"

// brokenBody returns what a broken page sends as text/html in UTF-8. It is a
// page of a kind seen in the wild: a template that stopped half way, with text
// in another encoding pasted in. There is no <title> and no <main>, nothing
// that was opened is closed, the last attribute does not end, and the text
// after the marker is UTF-16, which as UTF-8 is not even valid.
func brokenBody(p *page) []byte {
	body := []byte("<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n<body>\n" +
		BrokenMarker + "\n<div class=\"page\"><table><tr><td><ul><li>")
	body = append(body, 0xff, 0xfe)
	for _, r := range "Über «" + p.name + "» – " {
		body = binary.LittleEndian.AppendUint16(body, uint16(r))
	}
	return append(body, "<td><pre><a class=\"decl href=/pkg/"...)
}
