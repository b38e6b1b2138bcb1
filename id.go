package pawl

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// NewID returns a new message id: a UUID version 7 (RFC 9562) in its usual
// text form. Ids made later sort later, to a quarter of a microsecond, so that
// an index over them grows at one end only. Safe for concurrent use.
func NewID() string {
	var u [16]byte
	_, _ = rand.Read(u[6:]) // never fails, by its contract
	now := time.Now()
	// 48 bits of milliseconds, then 12 bits of the fraction of a millisecond
	// (RFC 9562, section 6.2, method 3).
	binary.BigEndian.PutUint64(u[:8], uint64(now.UnixMilli())<<16|uint64(now.Nanosecond()%1e6)<<12/1e6)
	return formatUUID(u, 7)
}

// EmitID returns the id of the index-th message that the delivery of parent
// emits: a UUID version 8 over SHA-256 of both. The same parent emits the same
// ids again, so that a target can recognise a repetition.
func EmitID(parent string, index int) string {
	h := sha256.New()
	_, _ = h.Write([]byte(parent)) // a hash never fails
	var i [9]byte
	binary.BigEndian.PutUint64(i[1:], uint64(index)) // i[0] ends the parent: ids hold no NUL
	_, _ = h.Write(i[:])
	return formatUUID([16]byte(h.Sum(nil)[:16]), 8)
}

// formatUUID sets version and variant and writes the 8-4-4-4-12 form.
func formatUUID(u [16]byte, version byte) string {
	u[6] = u[6]&0x0f | version<<4
	u[8] = u[8]&0x3f | 0x80
	var s [36]byte
	hex.Encode(s[0:8], u[0:4])
	hex.Encode(s[9:13], u[4:6])
	hex.Encode(s[14:18], u[6:8])
	hex.Encode(s[19:23], u[8:10])
	hex.Encode(s[24:36], u[10:16])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return string(s[:])
}
