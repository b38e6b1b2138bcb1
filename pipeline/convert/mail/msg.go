package mail

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/richardlehane/mscfb"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
)

// Properties of a message in Outlook's format, as names of streams begin.
const (
	propSubject = "0037"
	propFrom    = "0C1A"
	propFromAt  = "5D01"
	propFromOld = "0C1F"
	propTo      = "0E04"
	propCc      = "0E03"
	propText    = "1000"
	propHTML    = "1013"
	propRTF     = "1009"
	propData    = "3701"
	propName    = "3707"
	propShort   = "3704"
	stream      = "__substg1.0_"
	attachment  = "__attach_version1.0_"
	embedded    = stream + "3701000D" // a message in an attachment
	properties  = "__properties_version1.0"
)

// storage is a folder of the file: a message, an attachment, or what is in them.
type storage struct {
	name     string
	values   map[string]string // by the number of the property
	fixed    []byte            // properties of fixed length
	children []*storage
}

func (s *storage) child(name string) *storage {
	for _, c := range s.children {
		if c.name == name {
			return c
		}
	}
	c := &storage{name: name, values: map[string]string{}}
	s.children = append(s.children, c)
	return c
}

// Msg converts a message of Outlook.
func Msg(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	r, err := mscfb.New(bytes.NewReader(d.Data))
	if err != nil {
		return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "it is not an Outlook message: %w", err)
	}
	root := &storage{values: map[string]string{}}
	for e, err := r.Next(); ; e, err = r.Next() {
		if errors.Is(err, io.EOF) || e == nil {
			break
		}
		if err != nil {
			return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "it is cut off: %w", err)
		}
		if len(e.Path) > 2*maxDepth {
			return doc.Markdown{}, doc.Fail(doc.KindNesting, "messages are nested more than %d deep", maxDepth)
		}
		at := root
		for _, name := range e.Path {
			at = at.child(name)
		}
		if err := at.read(e, int64(len(d.Data))); err != nil {
			return doc.Markdown{}, err
		}
	}
	if len(root.values) == 0 {
		return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "it is not an Outlook message")
	}
	m, err := root.message()
	if err != nil {
		return doc.Markdown{}, err
	}
	return m.write(ctx, d)
}

// read takes a stream that holds a property, or those of fixed length.
func (s *storage) read(e *mscfb.File, most int64) error {
	name, ok := strings.CutPrefix(e.Name, stream)
	if ok = ok && len(name) == 8 && !e.FileInfo().IsDir(); !ok && e.Name != properties {
		return nil
	}
	b, err := io.ReadAll(io.LimitReader(e, most))
	if err != nil {
		return doc.Fail(doc.KindCorrupt, "it is cut off: %w", err)
	}
	if ok {
		s.values[name[:4]] = property(b, name[4:])
	} else {
		s.fixed = b
	}
	return nil
}

// message is what is shown of a message, those attached to it included.
func (s *storage) message() (m message, err error) {
	own := s.values
	m.subject = own[propSubject]
	text, packed := strings.ReplaceAll(own[propText], "\r\n", "\n"), own[propRTF]
	switch h := own[propHTML]; {
	case h != "" && (shows(h) || strings.TrimSpace(text) == ""):
		m.body = []section{{"html", charset.Decode([]byte(h), "")}}
	case packed != "":
		unpacked, err := unpackRTF([]byte(packed))
		empty := strings.TrimSpace(text) == ""
		if err != nil && empty {
			return m, err
		}
		m.body = []section{{"plain", text}}
		if empty || bytes.Contains(unpacked, []byte(`\fromhtml1`)) { // a page has more than its text
			m.body = []section{{"rtf", string(unpacked)}}
		}
	default:
		m.body = []section{{"plain", text}}
	}
	from := own[propFrom]
	if at := cmp.Or(own[propFromAt], own[propFromOld]); strings.Contains(at, "@") && at != from {
		from = strings.TrimSpace(from + " <" + at + ">")
	}
	for _, h := range [][2]string{{"From", from}, {"To", own[propTo]}, {"Cc", own[propCc]}, {"Date", s.sent()}} {
		if h[1] != "" {
			m.headers = append(m.headers, h)
		}
	}
	for _, a := range s.children {
		switch inner := a.child(embedded); {
		case !strings.HasPrefix(a.name, attachment):
		case len(inner.values) > 0:
			nested, err := inner.message()
			if err != nil {
				return m, err
			}
			m.messages = append(m.messages, nested)
		case a.values[propData] != "":
			m.attachments = append(m.attachments, doc.Document{Name: cmp.Or(a.values[propName], a.values[propShort]),
				Data: []byte(a.values[propData])})
		}
	}
	return m, nil
}

// property is the value of a stream by its type: UTF-16, text of a code page, or bytes.
func property(b []byte, kind string) string {
	switch kind {
	case "001F":
		return strings.TrimRight(charset.As(b, "utf-16le"), "\x00")
	case "001E":
		return charset.Decode(bytes.TrimRight(b, "\x00"), "") // a zero at the end would look like UTF-16
	}
	return string(b)
}

// sent finds the time of sending, or of delivery, among the properties of fixed length. They follow a header, which is
// shorter in a message within a message ([MS-OXMSG], 2.4.1).
func (s *storage) sent() string {
	begin := 32
	if s.name == embedded {
		begin = 24
	}
	b := s.fixed
	for _, id := range []uint16{0x0039, 0x0E06} {
		for at := begin; at+16 <= len(b); at += 16 {
			if binary.LittleEndian.Uint16(b[at:]) == 0x0040 && binary.LittleEndian.Uint16(b[at+2:]) == id {
				ticks := binary.LittleEndian.Uint64(b[at+8:]) // of 100 ns since 1601
				if seconds := int64(ticks/1e7) - 11_644_473_600; seconds > 0 {
					return time.Unix(seconds, 0).UTC().Format(time.RFC1123Z)
				}
			}
		}
	}
	return ""
}
