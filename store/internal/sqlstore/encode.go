package sqlstore

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// EncodeID makes the bytes under which an id is stored: the 16 bytes of a UUID
// in lower case, or a NUL and the text of any other id.
func EncodeID(id string) []byte {
	// A UUID whose first byte is 0 would look like text; it is stored as such.
	if b, ok := parseUUID(id); ok && b[0] != 0 {
		return b
	}
	return append([]byte{0}, id...)
}

// parseUUID reads the 8-4-4-4-12 form in lower case, and nothing else.
func parseUUID(id string) ([]byte, bool) {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return nil, false
	}
	b := make([]byte, 0, 16)
	for i := 0; i < len(id); i += 2 {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			i++ // the dash
		}
		high, low := digit(id[i]), digit(id[i+1])
		if high|low > 0xf {
			return nil, false
		}
		b = append(b, high<<4|low)
	}
	return b, true
}

// digit is the value of a hexadecimal digit in lower case, or 0xff.
func digit(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	default:
		return 0xff
	}
}

// DecodeID is the inverse of EncodeID.
func DecodeID(b []byte) string {
	if len(b) > 0 && b[0] == 0 {
		return string(b[1:])
	}
	if len(b) != 16 {
		return string(b)
	}
	var s [36]byte
	hex.Encode(s[0:8], b[0:4])
	hex.Encode(s[9:13], b[4:6])
	hex.Encode(s[14:18], b[6:8])
	hex.Encode(s[19:23], b[8:10])
	hex.Encode(s[24:36], b[10:16])
	s[8], s[13], s[18], s[23] = '-', '-', '-', '-'
	return string(s[:])
}

// EncodeHeaders returns nil for no headers, so that the common row stays small.
func EncodeHeaders(h map[string]string) []byte {
	if len(h) == 0 {
		return nil
	}
	b, _ := json.Marshal(h) // strings always marshal
	return b
}

// DecodeHeaders is the inverse of EncodeHeaders.
func DecodeHeaders(b []byte) (map[string]string, error) {
	if len(b) == 0 {
		return nil, nil
	}
	var h map[string]string
	if err := json.Unmarshal(b, &h); err != nil {
		return nil, fmt.Errorf("decode headers: %w", err)
	}
	return h, nil
}

// KeyLane returns the lane of a key in a topic with order by key: a negative number, a
// 63-bit hash of both. Two keys with the same hash share a lane, which costs only
// parallelism.
func KeyLane(topic int64, key []byte) int64 {
	h := sha256.New()
	var t [8]byte
	binary.BigEndian.PutUint64(t[:], uint64(topic))
	_, _ = h.Write(t[:]) // a hash never fails
	_, _ = h.Write(key)
	return -int64(binary.BigEndian.Uint64(h.Sum(nil))>>1) - 1
}

// NewFence returns a random positive 63-bit number.
func NewFence() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	return int64(binary.BigEndian.Uint64(b[:])>>1) | 1
}
