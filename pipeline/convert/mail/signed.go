package mail

import "bytes"

// signedData begins what is signed and not encrypted: the identifier 1.2.840.113549.1.7.2 (RFC 5652, 5.1).
var signedData = []byte{0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 2}

// signedContent is what a message of S/MIME holds if it is signed and not encrypted.
func signedContent(b []byte) ([]byte, bool) {
	_, info, _, _ := element(b, 0)
	// its content; in that, the signed data; the third of its elements; in that, the content; and its octets
	content, ok := info, bytes.HasPrefix(info, signedData)
	constructed := false
	for _, skipped := range []int{1, 0, 2, 1, 0} {
		for range skipped {
			_, _, content, _ = element(content, 0)
		}
		tag, inner, _, found := element(content, 0)
		content, constructed, ok = inner, tag&0x20 != 0, ok && found
	}
	if !ok || !constructed {
		return content, ok
	}
	var all []byte
	for len(content) > 0 { // in pieces
		_, piece, rest, ok := element(content, 0)
		if !ok {
			return nil, false
		}
		all, content = append(all, piece...), rest
	}
	return all, true
}

// element takes an element off the front of data in the Basic Encoding Rules (X.690, 8.1).
func element(b []byte, depth int) (tag byte, content, rest []byte, ok bool) {
	if len(b) < 2 || b[0]&0x1f == 0x1f || depth > maxDepth {
		return 0, nil, nil, false
	}
	tag, length := b[0], int(b[1])
	b = b[2:]
	if length == 0x80 { // up to two zeros
		for rest = b; len(rest) >= 2; {
			if rest[0]|rest[1] == 0 {
				return tag, b[:len(b)-len(rest)], rest[2:], true
			}
			if _, _, rest, ok = element(rest, depth+1); !ok {
				break
			}
		}
		return 0, nil, nil, false
	}
	if n := length & 0x7f; length > 0x80 {
		if n > 4 || n > len(b) {
			return 0, nil, nil, false
		}
		length = 0
		for _, c := range b[:n] {
			length = length<<8 | int(c)
		}
		b = b[n:]
	}
	if length > len(b) {
		return 0, nil, nil, false
	}
	return tag, b[:length], b[length:], true
}
