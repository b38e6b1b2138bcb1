package store

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/pawl-dev/pawl"
)

// varying matches what differs between two failures with one cause: quoted
// values, ids, addresses, times and numbers.
var varying = regexp.MustCompile(`"[^"]*"|'[^']*'|` +
	`\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b|` +
	`\bhttps?://\S+|\b0x[0-9a-fA-F]+\b|\b[0-9a-fA-F]*[0-9][0-9a-fA-F]{7,}\b|[0-9]+`)

// Fingerprint groups failures that have one cause: 12 hexadecimal digits over
// the kind and the first line of the text, without what varies.
func Fingerprint(kind pawl.Kind, text string) string {
	line, _, _ := strings.Cut(text, "\n")
	sum := sha256.Sum256([]byte(string(kind) + "\x00" + varying.ReplaceAllString(line, "#")))
	return hex.EncodeToString(sum[:6])
}
