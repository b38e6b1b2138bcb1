// Package mail reads messages as mail programs save them.
package mail

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

// message is what is shown of one.
type message struct {
	headers     [][2]string
	subject     string
	body        []section
	attachments []doc.Document
	messages    []message // attached to it
	base        *url.URL  // of links in its text
}

// section is a part of the text.
type section struct {
	kind string // html, rtf, or plain text
	text string
}

const (
	maxDepth = 16   // of parts in parts
	maxParts = 1000 // of a message
)

// Eml converts a message of RFC 5322: its header, its text and its attachments.
func Eml(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	m, err := mail.ReadMessage(bytes.NewReader(d.Data))
	if err != nil {
		m, err = mail.ReadMessage(bytes.NewReader(divided(d.Data)))
	}
	if err != nil {
		return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "it is not a mail message: %w", err)
	}
	var out message
	words := mime.WordDecoder{CharsetReader: func(label string, r io.Reader) (io.Reader, error) {
		b, err := io.ReadAll(r)
		return strings.NewReader(charset.As(b, label)), err
	}}
	decode := func(s string) string {
		if t, err := words.DecodeHeader(s); err == nil {
			s = t
		}
		return charset.Decode([]byte(s), "")
	}
	out.subject = decode(m.Header.Get("Subject"))
	for _, name := range []string{"From", "To", "Cc", "Bcc", "Reply-To", "Date"} {
		if v := m.Header[name]; len(v) > 0 {
			out.headers = append(out.headers, [2]string{name, decode(strings.Join(v, ", "))})
		}
	}
	r := reader{decode: decode}
	if err := r.part(&out, textproto.MIMEHeader(m.Header), m.Body, 0); err != nil {
		return doc.Markdown{}, err
	}
	return out.write(ctx, d)
}

// divided puts an empty line between a header and a body that have none: before the first line that cannot be of a
// header.
func divided(data []byte) []byte {
	at := 0
	for line := range bytes.Lines(data) {
		name, _, ok := bytes.Cut(line, []byte(":"))
		switch {
		case at == 0 && !ok:
			return data
		case at > 0 && line[0] != ' ' && line[0] != '\t' && (!ok || bytes.ContainsAny(name, " \t")):
			return slices.Concat(data[:at], []byte("\r\n"), data[at:])
		}
		at += len(line)
	}
	return data
}

// mediaType reads a header field such as Content-Type, also one with names in raw UTF-8 or without quotes.
func mediaType(field string) (kind string, params map[string]string) {
	field = strings.NewReplacer(`*="''`, `*="utf-8''`, `*=''`, `*=utf-8''`).Replace(field)
	kind, params, err := mime.ParseMediaType(field)
	if err == nil {
		return kind, params
	}
	first, rest, _ := strings.Cut(field, ";")
	params = map[string]string{}
	for pair := range strings.SplitSeq(rest, ";") {
		name, value, _ := strings.Cut(pair, "=")
		params[strings.ToLower(strings.TrimSpace(name))] = strings.Trim(strings.TrimSpace(value), `"`)
	}
	return strings.ToLower(strings.TrimSpace(first)), params
}

// reader reads the parts of a message.
type reader struct {
	decode func(string) string // of header fields
	parts  int
}

// part reads a part of a message, and those in it.
func (r *reader) part(m *message, h textproto.MIMEHeader, body io.Reader, depth int) error {
	if r.parts++; depth > maxDepth || r.parts > maxParts {
		return doc.Fail(doc.KindNesting, "it has more than %d parts, or they are nested more than %d deep",
			maxParts, maxDepth)
	}
	kind, params := mediaType(h.Get("Content-Type"))
	kind = strings.Replace(cmp.Or(kind, "text/plain"), "/x-pkcs7", "/pkcs7", 1)
	if strings.HasPrefix(kind, "multipart/") && params["boundary"] != "" {
		whole, err := io.ReadAll(body)
		if err != nil {
			return doc.Fail(doc.KindCorrupt, "a part of it cannot be decoded: %w", err)
		}
		before := r.parts
		err = r.multipart(m, kind, multipart.NewReader(bytes.NewReader(whole), params["boundary"]), depth)
		if err == nil && r.parts == before && len(bytes.TrimSpace(whole)) > 0 { // its boundary is another one
			m.body = append(m.body, section{"plain", strings.ReplaceAll(charset.Decode(whole, ""), "\r\n", "\n")})
			return nil
		}
		return err
	}
	data, err := io.ReadAll(decoded(h.Get("Content-Transfer-Encoding"), body))
	if err != nil && len(data) == 0 {
		return doc.Fail(doc.KindCorrupt, "a part of it cannot be decoded: %w", err)
	}
	disposition, dp := mediaType(h.Get("Content-Disposition"))
	name := r.decode(cmp.Or(dp["filename"], params["name"]))
	shown := disposition != "attachment" && (kind == "text/html" || kind == "text/plain")
	switch {
	case shown && kind == "text/html":
		m.body = append(m.body, section{"html", charset.Decode(data, params["charset"])})
		if base, err := url.Parse(h.Get("Content-Location")); err == nil && base.IsAbs() && m.base == nil {
			m.base = base
		}
	case shown:
		text := strings.ReplaceAll(charset.Decode(data, params["charset"]), "\r\n", "\n")
		if strings.EqualFold(params["format"], "flowed") {
			text = joined(text, strings.EqualFold(params["delsp"], "yes"))
		}
		text, files := uuencoded(text)
		m.body, m.attachments = append(m.body, section{"plain", text}), append(m.attachments, files...)
	case kind == "application/pkcs7-signature" || kind == "application/pgp-signature" || kind == "text/css":
	case kind == "application/pkcs7-mime" && depth == 0:
		content, ok := signedContent(data)
		if !ok {
			return doc.Fail(doc.KindLocked, "its text is encrypted (S/MIME)")
		}
		inner, err := mail.ReadMessage(bytes.NewReader(content))
		if err != nil {
			return doc.Fail(doc.KindCorrupt, "what is signed is not a mail message: %w", err)
		}
		return r.part(m, textproto.MIMEHeader(inner.Header), inner.Body, depth+1)
	case disposition != "attachment" && (strings.HasPrefix(kind, "image/") && h.Get("Content-Id") != "" ||
		depth > 0 && strings.Contains(h.Get("Content-Location"), ":")):
		// it is part of the page
	default:
		if kind == "message/rfc822" && !strings.HasSuffix(name, ".eml") {
			name = cmp.Or(name, "message") + ".eml"
		}
		if kind == "text/csv" {
			name = cmp.Or(name, "table.csv")
		}
		m.attachments = append(m.attachments, doc.Document{Name: name, Data: data, Charset: params["charset"]})
	}
	return nil
}

// multipart reads the parts of one: all of them, or the best of alternatives.
func (r *reader) multipart(m *message, kind string, parts *multipart.Reader, depth int) error {
	if kind == "multipart/encrypted" && depth == 0 {
		return doc.Fail(doc.KindLocked, "its text is encrypted (PGP)")
	}
	var best []section
	for {
		p, err := parts.NextRawPart()
		if err != nil {
			m.body = append(m.body, best...)
			if !errors.Is(err, io.EOF) && len(m.body)+len(m.attachments) == 0 { // the end is missing in many messages
				return doc.Fail(doc.KindCorrupt, "it is cut off: %w", err)
			}
			return nil
		}
		if kind == "multipart/digest" && p.Header.Get("Content-Type") == "" {
			p.Header.Set("Content-Type", "message/rfc822")
		}
		if kind != "multipart/alternative" {
			if err := r.part(m, p.Header, p, depth+1); err != nil {
				return err
			}
			continue
		}
		var one message
		if err := r.part(&one, p.Header, p, depth+1); err != nil {
			return err
		}
		if len(one.body) > 0 && (len(best) == 0 || rank(one.body) >= rank(best)) {
			best = one.body
		}
		m.attachments = append(m.attachments, slices.DeleteFunc(one.attachments, func(a doc.Document) bool {
			return a.Name == "" // it repeats the text, for programs of some kind
		})...)
	}
}

// rank of an alternative: a page with a text, plain text, and a page without any.
func rank(body []section) (n int) {
	for _, s := range body {
		switch {
		case s.kind == "html" && shows(s.text):
			return 1
		case s.kind == "html":
			n = -1
		}
	}
	return n
}

// shows reports whether a page has a text.
func shows(page string) bool {
	s := markup.NewHTML(page)
	for t := s.Next(); t != markup.End; t = s.Next() {
		if t == markup.Text && s.Name != "style" && s.Name != "script" && s.Name != "title" &&
			strings.TrimSpace(s.Decoded()) != "" {
			return true
		}
	}
	return false
}

// joined makes paragraphs of lines that end with a space, each within its level of quotes (RFC 3676).
func joined(text string, withoutSpace bool) string {
	var b strings.Builder
	open, level := false, 0 // the line before goes on
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		rest := strings.TrimLeft(line, ">")
		n := len(line) - len(rest)
		rest = strings.TrimPrefix(rest, " ") // in front of what would be a quote or "From "
		if open && n != level {
			b.WriteByte('\n')
			open = false
		}
		if !open && n > 0 {
			b.WriteString(strings.Repeat("> ", n))
		}
		if open, level = strings.HasSuffix(rest, " ") && rest != "-- ", n; open && withoutSpace {
			rest = rest[:len(rest)-1]
		}
		if b.WriteString(rest); !open {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func decoded(encoding string, r io.Reader) io.Reader {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "base64":
		return base64.NewDecoder(base64.StdEncoding, r)
	case "quoted-printable":
		return quotedprintable.NewReader(r)
	}
	return r
}

// write shows a message.
func (m *message) write(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	if d.Depth > maxDepth {
		return doc.Markdown{}, doc.Fail(doc.KindNesting, "messages are nested more than %d deep", maxDepth)
	}
	var w markdown.Writer
	if err := m.show(ctx, d, &w, 1); err != nil {
		return doc.Markdown{}, err
	}
	return doc.Markdown{Text: w.String(), Title: m.subject}, nil
}

// show writes a message under a heading of a level.
func (m *message) show(ctx context.Context, d doc.Document, w *markdown.Writer, level int) error {
	if m.subject != "" {
		w.Title(level, m.subject)
	}
	for _, h := range m.headers {
		w.Marked(markdown.Strong, h[0]+":")
		w.Text(" " + h[1])
		w.Break()
	}
	w.End()
	for _, s := range m.body {
		switch s.kind {
		case "html":
			w.HTML(s.text, markdown.Options{Image: d.Inline, Base: m.base, Hidden: d.Hidden})
		case "rtf":
			if err := d.Part(ctx, w, "", doc.Document{Name: "body.rtf", Data: []byte(s.text)}); err != nil {
				return err
			}
		default:
			w.Block(s.text)
		}
	}
	for _, a := range m.attachments {
		if err := d.Part(ctx, w, strings.TrimSuffix("Attachment: "+a.Name, ": "), a); err != nil {
			return err
		}
	}
	for _, attached := range m.messages {
		if err := attached.show(ctx, d, w, 2); err != nil {
			return err
		}
	}
	return nil
}
