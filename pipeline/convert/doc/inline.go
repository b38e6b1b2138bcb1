package doc

import (
	"encoding/base64"
	"mime"
	"strings"
)

// Inline keeps a picture that is in its URL, if pictures are kept, and says what links to it: without the picture
// itself, which is no text. Other URLs stay as they are.
func (d *Document) Inline(src string) string {
	head, body, ok := strings.Cut(src, ",")
	if !ok || !strings.HasPrefix(head, "data:") {
		return src
	}
	kind, _, _ := strings.Cut(head, ";")
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(body), ""))
	if d.Image == nil || err != nil || !strings.HasSuffix(head, ";base64") {
		return kind
	}
	extensions, _ := mime.ExtensionsByType(strings.TrimPrefix(kind, "data:"))
	return d.Image("image"+strings.Join(extensions[:min(1, len(extensions))], ""), data)
}
