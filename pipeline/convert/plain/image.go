package plain

import (
	"encoding/base64"
	"mime"
	"strings"
)

// embedded keeps a picture that is in its URL; other URLs stay as they are.
func embedded(src string, keep func(name string, data []byte) string) string {
	head, body, ok := strings.Cut(src, ",")
	if !ok || !strings.HasPrefix(head, "data:") {
		return src
	}
	if data, err := base64.StdEncoding.DecodeString(body); err == nil && strings.HasSuffix(head, ";base64") {
		kind, _, _ := strings.Cut(strings.TrimPrefix(head, "data:"), ";")
		extensions, _ := mime.ExtensionsByType(kind)
		return keep("image"+strings.Join(extensions[:min(1, len(extensions))], ""), data)
	}
	kind, _, _ := strings.Cut(head, ";")
	return kind
}
