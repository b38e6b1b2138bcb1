package codec

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
	"pgregory.net/rapid"
)

func TestJSONThatComesBack(t *testing.T) {
	for _, body := range []string{
		`{"a":1}`, `[1,2,3]`, `{}`, `[]`, `[[],{},[{}]]`, `{"b":1,"a":2,"b":3}`, `[null,true,false]`,
		`"long enough to be shorter"`,
		`[0,-1,127,128,-128,255,256,65535,65536,4294967295,4294967296,-2147483649,9223372036854775807,-9223372036854775808,18446744073709551615]`,
		`[0.1,0.25,-1.5,3.141592653589793,1e-7,1e+21,1.5e+300,2.2250738585072014e-308]`,
		`["","é","😀","\u0000\u001f\b\f\n\r\t\"\\"]`, `{"":{"":{"":[""]}}}`, "[\"\u2028\",\"<&>\"]",
		`[` + strings.Repeat(`"x",`, 70_000) + `1]`, `{"k":"` + strings.Repeat("v", 70_000) + `","l":true}`,
		strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
	} {
		packed := toMsgpack([]byte(body))
		if packed == nil {
			if len(body) > 5 && !strings.HasPrefix(body, "[0.1,0.25") { // floats may be longer
				t.Errorf("%.60s was left alone", body)
			}
			continue
		}
		again, err := fromMsgpack(packed, len(body))
		if err != nil || string(again) != body {
			t.Errorf("%.60s came back as %.60s: %v", body, again, err)
		}
		if _, err := fromMsgpack(packed, len(body)-1); err == nil {
			t.Errorf("%.60s: more came out than may", body)
		}
		if depth := strings.Count(body, "["); depth < 1000 {
			sameValue(t, body, packed)
		}
	}
}

// sameValue reads the msgpack with a reader that knows nothing of this package.
func sameValue(t testing.TB, body string, packed []byte) {
	t.Helper()
	var got, want any
	if err := msgpack.Unmarshal(packed, &got); err != nil {
		t.Fatalf("%.60s: %v", body, err)
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(numbers(got), numbers(want)) {
		t.Fatalf("%.100s means %.100v elsewhere", body, got)
	}
}

// numbers makes numbers comparable: texts, as exact as they are.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
		return v
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
		return v
	case json.Number:
		if strings.ContainsAny(v.String(), ".e") {
			f, _ := v.Float64()
			return f
		}
		return v.String()
	case float32:
		return float64(v)
	case float64, string, bool, nil:
		return v
	}
	n := reflect.ValueOf(v)
	if n.CanUint() {
		return strconv.FormatUint(n.Uint(), 10)
	}
	return strconv.FormatInt(n.Int(), 10)
}

// TestJSONThatIsLeftAlone: bytes that would not come back, and what is no JSON.
func TestJSONThatIsLeftAlone(t *testing.T) {
	pad := `,"padding":{"padding":{"padding":"padding"}}}`
	for _, value := range []string{
		`1.0`, `1.50`, `-0`, `0.0`, `1e5`, `1E-7`, `1e-07`, `18446744073709551616`, `-9223372036854775809`,
		`12345678901234567890123`, `1e400`,
		`100000000000000000000`, `0.30000000000000004440892098500626`, `"\u00e9"`, `"\/"`, `"\u003c"`, `"\ud800"`,
		`"\u001F"`, ` 1`, `1 `, `[1, 2]`, "\n1",
		`01`, `nul`, `{"a"}`, `[1,]`, "\"\xff\"", `'a'`, ``,
	} {
		if body := []byte(`{"v":` + value + pad); toMsgpack(body) != nil {
			t.Errorf("%s was re-encoded", body)
		}
	}
	if body := []byte(`{"v":1` + pad); toMsgpack(body) == nil {
		t.Errorf("%s was left alone: this test proves nothing", body)
	}
	for _, body := range []string{"", "1", "{", `{"a":1}{"a":1}`, `{"a":1}x`, `[0.5,0.5,0.5]`,
		strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)} {
		if toMsgpack([]byte(body)) != nil {
			t.Errorf("%.40s was re-encoded", body)
		}
	}
}

func TestMsgpackOfOthers(t *testing.T) {
	for want, v := range map[string]any{
		`{"a":[1,-2,1.5,"x",null,true]}`: map[string]any{"a": []any{uint8(1), int64(-2), 1.5, "x", nil, true}},
		`"A"`:                            "A", `[]`: []any{},
	} {
		b, err := msgpack.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := fromMsgpack(b, 1000); err != nil || string(got) != want {
			t.Errorf("%v became %s: %v", v, got, err)
		}
	}
	for _, v := range []any{[]byte("bin"), math.NaN(), math.Inf(1), map[int]int{1: 2}} {
		b, err := msgpack.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := fromMsgpack(b, 1000); err == nil || !isDamaged(err) {
			t.Errorf("%v became %s", v, got)
		}
	}
	deep := append(bytes.Repeat([]byte{0x91}, maxDepth+1), 0xc0)
	if _, err := fromMsgpack(deep, 1<<20); err == nil {
		t.Error("it may be nested without end")
	}
}

// TestAnyJSON: what is re-encoded comes back, and means the same to others.
func TestAnyJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body, err := json.Marshal(anyValue(4).Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		if packed := toMsgpack(body); packed != nil {
			again, err := fromMsgpack(packed, len(body))
			if err != nil || !bytes.Equal(again, body) || len(packed) >= len(body) {
				t.Fatalf("%s came back as %s: %v", body, again, err)
			}
		}
	})
}

func anyValue(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Int64().AsAny(), rapid.Uint64().AsAny(), rapid.Float64Range(-1e30, 1e30).AsAny(), rapid.String().AsAny(),
		rapid.Bool().AsAny(),
		rapid.Just[any](nil), rapid.IntRange(-200, 200).AsAny(),
	}
	if depth > 0 {
		inner := rapid.Deferred(func() *rapid.Generator[any] { return anyValue(depth - 1) })
		leaves = append(leaves, rapid.SliceOfN(inner, 0, 20).AsAny(),
			rapid.MapOfN(rapid.String(), inner, 0, 20).AsAny())
	}
	return rapid.OneOf(leaves...)
}

func FuzzToMsgpack(f *testing.F) {
	f.Add([]byte(`{"a":[1,-2,1.5,1e-7,"x\n",null,true],"b":{}}`))
	f.Add([]byte(`[18446744073709551615,"\u0000",{"":[]}]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		packed := toMsgpack(body)
		if packed == nil {
			return
		}
		if again, err := fromMsgpack(packed, len(body)); err != nil || !bytes.Equal(again, body) ||
			len(packed) >= len(body) {
			t.Fatalf("%q came back as %q: %v", body, again, err)
		}
		var v any
		if err := msgpack.Unmarshal(packed, &v); err != nil {
			t.Fatalf("%q: others cannot read it: %v", body, err)
		}
	})
}

func FuzzFromMsgpack(f *testing.F) {
	f.Add([]byte{0x81, 0xa1, 'a', 0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xd9, 1, 'x'})
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff, 0xdf, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1000
		out, err := fromMsgpack(data, limit)
		if err != nil && !isDamaged(err) {
			t.Fatalf("error %v", err)
		}
		if err == nil && (len(out) > limit || !json.Valid(out)) {
			t.Fatalf("%x became %q", data, out)
		}
	})
}
