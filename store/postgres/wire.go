package postgres

import (
	"encoding/binary"
	"time"

	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// Parameters and results travel in PostgreSQL's binary formats, written and
// read here without reflection: at 100,000 messages a second that is a tenth of
// the client's work.

// Types of array elements.
const (
	oidBool        = 16
	oidBytea       = 17
	oidInt8        = 20
	oidInt2        = 21
	oidInt4        = 23
	oidText        = 25
	oidTimestamptz = 1184
)

// epoch is 2000-01-01 in microseconds since 1970: where timestamptz begins.
const epoch = 946_684_800_000_000

func int8Value(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }
func int4Value(v int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(v)) }
func int2Value(v int16) []byte { return binary.BigEndian.AppendUint16(nil, uint16(v)) }

func boolValue(v bool) []byte {
	if v {
		return []byte{1}
	}
	return []byte{0}
}

// textValue and bytesValue are never nil: nil is NULL.
func textValue(s string) []byte { return append([]byte{}, s...) }

func bytesValue(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// intervalValue is d in whole microseconds.
func intervalValue(d time.Duration) []byte {
	return append(int8Value(d.Microseconds()), make([]byte, 8)...) // no days, no months
}

// arrayHead begins an array of n elements, which need size bytes.
func arrayHead(oid uint32, n, size int) []byte {
	b := make([]byte, 0, 20+4*n+size)
	if n == 0 {
		b = binary.BigEndian.AppendUint32(b, 0)
		b = binary.BigEndian.AppendUint32(b, 0)
		return binary.BigEndian.AppendUint32(b, oid)
	}
	b = binary.BigEndian.AppendUint32(b, 1)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, oid)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	return binary.BigEndian.AppendUint32(b, 1)
}

func int8Array(vs []int64) []byte {
	b := arrayHead(oidInt8, len(vs), 8*len(vs))
	for _, v := range vs {
		b = binary.BigEndian.AppendUint32(b, 8)
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// column is the array of a number of each element.
func column[T any](all []T, of func(*T) int64) []byte {
	vs := make([]int64, len(all))
	for i := range all {
		vs[i] = of(&all[i])
	}
	return int8Array(vs)
}

func int4Array(vs []int32) []byte {
	b := arrayHead(oidInt4, len(vs), 4*len(vs))
	for _, v := range vs {
		b = binary.BigEndian.AppendUint32(b, 4)
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	return b
}

func int2Array(vs []int16) []byte {
	b := arrayHead(oidInt2, len(vs), 2*len(vs))
	for _, v := range vs {
		b = binary.BigEndian.AppendUint32(b, 2)
		b = binary.BigEndian.AppendUint16(b, uint16(v))
	}
	return b
}

func boolArray(vs []bool) []byte {
	b := arrayHead(oidBool, len(vs), len(vs))
	for _, v := range vs {
		b = binary.BigEndian.AppendUint32(b, 1)
		b = append(b, boolValue(v)...)
	}
	return b
}

// timeArray is a timestamptz[] of microseconds since 1970.
func timeArray(vs []int64) []byte {
	b := arrayHead(oidTimestamptz, len(vs), 8*len(vs))
	for _, v := range vs {
		b = binary.BigEndian.AppendUint32(b, 8)
		b = binary.BigEndian.AppendUint64(b, uint64(v-epoch))
	}
	return b
}

// bytesArray has no NULLs: a nil element is an empty one.
func bytesArray(vs [][]byte) []byte { return elements(oidBytea, vs) }

func textArray(vs []string) []byte { return elements(oidText, vs) }

func elements[T ~string | ~[]byte](oid uint32, vs []T) []byte {
	size := 0
	for _, v := range vs {
		size += len(v)
	}
	b := arrayHead(oid, len(vs), size)
	for _, v := range vs {
		b = binary.BigEndian.AppendUint32(b, uint32(len(v)))
		b = append(b, v...)
	}
	return b
}

// row is one row of a result. Its bytes are good until the next row is read.
type row [][]byte

func (r row) null(i int) bool { return r[i] == nil }

func (r row) int8(i int) int64 {
	if r[i] == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(r[i]))
}

func (r row) int4(i int) int {
	if r[i] == nil {
		return 0
	}
	return int(int32(binary.BigEndian.Uint32(r[i])))
}

// messageID is an id as [sqlstore.EncodeID] stores it.
func (r row) messageID(i int) string { return sqlstore.DecodeID(r[i]) }

// id is the number of a topic.
func (r row) id(i int) int32 { return int32(r.int4(i)) }

func (r row) int2(i int) int {
	if r[i] == nil {
		return 0
	}
	return int(int16(binary.BigEndian.Uint16(r[i])))
}

func (r row) bool(i int) bool { return len(r[i]) == 1 && r[i][0] == 1 }

func (r row) text(i int) string { return string(r[i]) }

// bytes is a copy.
func (r row) bytes(i int) []byte { return append([]byte{}, r[i]...) }

// micros is a timestamptz in microseconds since 1970; 0 for NULL.
func (r row) micros(i int) int64 {
	if r[i] == nil {
		return 0
	}
	return r.int8(i) + epoch
}

// time is a timestamptz; the zero time for NULL.
func (r row) time(i int) time.Time { return moment(r.micros(i)) }

func moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// each yields the elements of a one-dimensional array; nil for NULL.
func (r row) each(i int, yield func([]byte)) {
	b := r[i]
	if len(b) < 20 {
		return // NULL or empty
	}
	n := binary.BigEndian.Uint32(b[12:])
	b = b[20:]
	for range n {
		size := int32(binary.BigEndian.Uint32(b))
		b = b[4:]
		if size < 0 {
			yield(nil)
			continue
		}
		yield(b[:size:size])
		b = b[size:]
	}
}

func (r row) int8s(i int) (vs []int64) {
	r.each(i, func(b []byte) { vs = append(vs, int64(binary.BigEndian.Uint64(b))) })
	return vs
}

func (r row) int4s(i int) (vs []int) {
	r.each(i, func(b []byte) { vs = append(vs, int(int32(binary.BigEndian.Uint32(b)))) })
	return vs
}

// timesMicros is a timestamptz[] in microseconds since 1970.
func (r row) timesMicros(i int) (vs []int64) {
	r.each(i, func(b []byte) { vs = append(vs, int64(binary.BigEndian.Uint64(b))+epoch) })
	return vs
}

func (r row) bytesList(i int) (vs [][]byte) {
	r.each(i, func(b []byte) { vs = append(vs, append([]byte(nil), b...)) })
	return vs
}

func (r row) texts(i int) (vs []string) {
	r.each(i, func(b []byte) { vs = append(vs, string(b)) })
	return vs
}
