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
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
)

// message is what is shown of one.
type message struct {
	headers     [][2]string
	subject     string
	text, html  string // the first of each
	rtf         []byte // where there is neither
	attachments []doc.Document
	messages    []message // attached to it
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
	parts := 0
	if err := out.part(textproto.MIMEHeader(m.Header), m.Body, decode, 0, &parts); err != nil {
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

// part reads a part of a message, and those in it.
func (m *message) part(h textproto.MIMEHeader, body io.Reader, decode func(string) string, depth int,
	parts *int) error {
	if *parts++; depth > maxDepth || *parts > maxParts {
		return doc.Fail(doc.KindNesting, "it has more than %d parts, or they are nested more than %d deep",
			maxParts, maxDepth)
	}
	kind, params := mediaType(h.Get("Content-Type"))
	kind = cmp.Or(kind, "text/plain")
	if strings.HasPrefix(kind, "multipart/") && params["boundary"] != "" {
		r := multipart.NewReader(body, params["boundary"])
		for {
			p, err := r.NextRawPart()
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil: // the end is missing, as in many messages
				if m.text+m.html == "" && len(m.attachments) == 0 {
					return doc.Fail(doc.KindCorrupt, "it is cut off: %w", err)
				}
				return nil
			}
			if err := m.part(p.Header, p, decode, depth+1, parts); err != nil {
				return err
			}
		}
	}
	data, err := io.ReadAll(decoded(h.Get("Content-Transfer-Encoding"), body))
	if err != nil && len(data) == 0 {
		return doc.Fail(doc.KindCorrupt, "a part of it cannot be decoded: %w", err)
	}
	disposition, dp := mediaType(h.Get("Content-Disposition"))
	name := decode(cmp.Or(dp["filename"], params["name"]))
	switch {
	case disposition == "attachment" || name != "" && !strings.HasPrefix(kind, "text/") ||
		!strings.HasPrefix(kind, "text/"):
		if strings.HasPrefix(kind, "image/") && disposition != "attachment" && h.Get("Content-Id") != "" {
			return nil // it is part of the page
		}
		if kind == "message/rfc822" && !strings.HasSuffix(name, ".eml") {
			name = cmp.Or(name, "message") + ".eml"
		}
		m.attachments = append(m.attachments, doc.Document{Name: name, Data: data})
	case kind == "text/html" && m.html == "":
		m.html = charset.Decode(data, params["charset"])
	case kind == "text/plain" && m.text == "":
		m.text = charset.Decode(data, params["charset"])
	case kind == "text/plain" && m.html == "":
		m.text += "\n" + charset.Decode(data, params["charset"])
	}
	return nil
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
	switch {
	case m.html != "":
		w.HTML(m.html, markdown.Options{})
	case m.rtf != nil:
		if err := d.Part(ctx, w, "", doc.Document{Name: "body.rtf", Data: m.rtf}); err != nil {
			return err
		}
	default:
		w.Block(strings.ReplaceAll(m.text, "\r\n", "\n"))
	}
	for _, a := range m.attachments {
		if err := d.Part(ctx, w, "Attachment: "+a.Name, a); err != nil {
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
