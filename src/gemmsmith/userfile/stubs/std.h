// The part of namespace std that kernels use most, small enough to cost no compile time. What is not here comes from
// libcu++ (stub_headers.py).
#pragma once
#define GS_FN __host__ __device__ inline constexpr
namespace std {
template <class T, T v> struct integral_constant {
    static constexpr T value = v;
    using value_type = T;
    using type = integral_constant;
    __host__ __device__ constexpr operator T() const { return v; }
    __host__ __device__ constexpr T operator()() const { return v; }
};
template <bool b> using bool_constant = integral_constant<bool, b>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <bool, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool, class A, class B> struct conditional { using type = A; };
template <class A, class B> struct conditional<false, A, B> { using type = B; };
template <class...> using void_t = void;

template <class T> struct remove_const { using type = T; };
template <class T> struct remove_const<const T> { using type = T; };
template <class T> struct remove_volatile { using type = T; };
template <class T> struct remove_volatile<volatile T> { using type = T; };
template <class T> struct remove_cv { using type = typename remove_volatile<typename remove_const<T>::type>::type; };
template <class T> struct remove_reference { using type = T; };
template <class T> struct remove_reference<T&> { using type = T; };
template <class T> struct remove_reference<T&&> { using type = T; };
template <class T> struct remove_cvref { using type = typename remove_cv<typename remove_reference<T>::type>::type; };
template <class T> struct remove_pointer { using type = T; };
template <class T> struct remove_pointer<T*> { using type = T; };
template <class T> struct remove_pointer<T* const> { using type = T; };
template <class T> struct remove_extent { using type = T; };
template <class T> struct remove_extent<T[]> { using type = T; };
template <class T, unsigned long n> struct remove_extent<T[n]> { using type = T; };
template <class T> struct add_const { using type = const T; };
template <class T> struct add_pointer { using type = typename remove_reference<T>::type*; };
template <class T> struct is_pointer : false_type {};
template <class T> struct is_pointer<T*> : true_type {};
template <class T> struct is_const : false_type {};
template <class T> struct is_const<const T> : true_type {};
template <class T> struct is_reference : false_type {};
template <class T> struct is_reference<T&> : true_type {};
template <class T> struct is_reference<T&&> : true_type {};
template <class T> struct is_array : false_type {};
template <class T> struct is_array<T[]> : true_type {};
template <class T, unsigned long n> struct is_array<T[n]> : true_type {};
template <class T> struct is_void : is_same<void, typename remove_cv<T>::type> {};
template <class T> struct decay {
    using U = typename remove_reference<T>::type;
    using type = typename conditional<is_array<U>::value, typename remove_extent<U>::type*, typename remove_cv<U>::type>::type;
};

template <class T> struct gs_integer : false_type {};
template <class T> struct gs_real : false_type {};
#define GS_INTEGER(T, U) template <> struct gs_integer<T> : true_type { using signed_type = T; using unsigned_type = U; }; \
    template <> struct gs_integer<U> : true_type { using signed_type = T; using unsigned_type = U; };
GS_INTEGER(signed char, unsigned char) GS_INTEGER(short, unsigned short) GS_INTEGER(int, unsigned int)
GS_INTEGER(long, unsigned long) GS_INTEGER(long long, unsigned long long)
#undef GS_INTEGER
template <> struct gs_integer<char> : true_type { using signed_type = signed char; using unsigned_type = unsigned char; };
template <> struct gs_integer<bool> : true_type {};
template <> struct gs_real<float> : true_type {};
template <> struct gs_real<double> : true_type {};
template <class T> struct is_integral : bool_constant<gs_integer<typename remove_cv<T>::type>::value> {};
template <class T> struct is_floating_point : bool_constant<gs_real<typename remove_cv<T>::type>::value> {};
template <class T> struct is_arithmetic : bool_constant<is_integral<T>::value || is_floating_point<T>::value> {};
template <class T, bool = is_arithmetic<T>::value> struct is_signed : bool_constant<(T(-1) < T(0))> {};
template <class T> struct is_signed<T, false> : false_type {};
template <class T> struct is_unsigned : bool_constant<is_arithmetic<T>::value && !is_signed<T>::value> {};
template <class T> struct make_signed { using type = typename gs_integer<T>::signed_type; };
template <class T> struct make_unsigned { using type = typename gs_integer<T>::unsigned_type; };
template <class T> struct is_enum : bool_constant<__is_enum(T)> {};
template <class T> struct is_class : bool_constant<__is_class(T)> {};
template <class T> struct is_trivially_copyable : bool_constant<__is_trivially_copyable(T)> {};
template <class B, class D> struct is_base_of : bool_constant<__is_base_of(B, D)> {};
template <class A, class B> struct is_convertible : bool_constant<__is_convertible_to(A, B)> {};
template <class T> struct underlying_type { using type = __underlying_type(T); };

template <class...> struct conjunction : true_type {};
template <class A> struct conjunction<A> : A {};
template <class A, class... B> struct conjunction<A, B...> : conditional<bool(A::value), conjunction<B...>, A>::type {};
template <class...> struct disjunction : false_type {};
template <class A> struct disjunction<A> : A {};
template <class A, class... B> struct disjunction<A, B...> : conditional<bool(A::value), A, disjunction<B...>>::type {};
template <class A> struct negation : bool_constant<!bool(A::value)> {};

template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <class T> inline constexpr bool is_pointer_v = is_pointer<T>::value;
template <class T> inline constexpr bool is_const_v = is_const<T>::value;
template <class T> inline constexpr bool is_reference_v = is_reference<T>::value;
template <class T> inline constexpr bool is_void_v = is_void<T>::value;
template <class T> inline constexpr bool is_integral_v = is_integral<T>::value;
template <class T> inline constexpr bool is_floating_point_v = is_floating_point<T>::value;
template <class T> inline constexpr bool is_arithmetic_v = is_arithmetic<T>::value;
template <class T> inline constexpr bool is_signed_v = is_signed<T>::value;
template <class T> inline constexpr bool is_unsigned_v = is_unsigned<T>::value;
template <class T> inline constexpr bool is_enum_v = is_enum<T>::value;
template <class T> inline constexpr bool is_class_v = is_class<T>::value;
template <class T> inline constexpr bool is_trivially_copyable_v = is_trivially_copyable<T>::value;
template <class B, class D> inline constexpr bool is_base_of_v = is_base_of<B, D>::value;
template <class A, class B> inline constexpr bool is_convertible_v = is_convertible<A, B>::value;
template <class... A> inline constexpr bool conjunction_v = conjunction<A...>::value;
template <class... A> inline constexpr bool disjunction_v = disjunction<A...>::value;
template <class A> inline constexpr bool negation_v = negation<A>::value;
template <bool b, class T = void> using enable_if_t = typename enable_if<b, T>::type;
template <bool b, class A, class B> using conditional_t = typename conditional<b, A, B>::type;
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> using remove_cv_t = typename remove_cv<T>::type;
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> using remove_cvref_t = typename remove_cvref<T>::type;
template <class T> using remove_pointer_t = typename remove_pointer<T>::type;
template <class T> using remove_extent_t = typename remove_extent<T>::type;
template <class T> using add_const_t = typename add_const<T>::type;
template <class T> using add_pointer_t = typename add_pointer<T>::type;
template <class T> using decay_t = typename decay<T>::type;
template <class T> using make_signed_t = typename make_signed<T>::type;
template <class T> using make_unsigned_t = typename make_unsigned<T>::type;
template <class T> using underlying_type_t = typename underlying_type<T>::type;

template <class T> __host__ __device__ T&& declval() noexcept;
template <class T> GS_FN const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> GS_FN const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T, class L> GS_FN const T& min(const T& a, const T& b, L less) { return less(b, a) ? b : a; }
template <class T, class L> GS_FN const T& max(const T& a, const T& b, L less) { return less(a, b) ? b : a; }
template <class T> GS_FN const T& clamp(const T& x, const T& low, const T& high) { return x < low ? low : high < x ? high : x; }
template <class T> GS_FN void swap(T& a, T& b) { T c = static_cast<T&&>(a); a = static_cast<T&&>(b); b = static_cast<T&&>(c); }
template <class T> GS_FN T* addressof(T& x) { return __builtin_addressof(x); }
template <class T, class U = T> GS_FN T exchange(T& x, U&& next) { T old = x; x = static_cast<U&&>(next); return old; }
template <class T, unsigned long n> GS_FN unsigned long size(const T (&)[n]) { return n; }

template <class A, class B> struct pair {
    using first_type = A; using second_type = B;
    A first; B second;
};
template <class A, class B> GS_FN pair<decay_t<A>, decay_t<B>> make_pair(A&& a, B&& b) { return {a, b}; }
template <class T, unsigned long n> struct array {
    using value_type = T;
    T gs_items[n ? n : 1];
    __host__ __device__ constexpr T& operator[](unsigned long i) { return gs_items[i]; }
    __host__ __device__ constexpr const T& operator[](unsigned long i) const { return gs_items[i]; }
    __host__ __device__ constexpr T* data() { return gs_items; }
    __host__ __device__ constexpr const T* data() const { return gs_items; }
    __host__ __device__ constexpr T* begin() { return gs_items; }
    __host__ __device__ constexpr T* end() { return gs_items + n; }
    __host__ __device__ constexpr const T* begin() const { return gs_items; }
    __host__ __device__ constexpr const T* end() const { return gs_items + n; }
    __host__ __device__ constexpr unsigned long size() const { return n; }
    __host__ __device__ constexpr void fill(const T& x) { for (unsigned long i = 0; i < n; ++i) gs_items[i] = x; }
};

template <class T> struct gs_operation { };
template <class T = void> struct plus { __host__ __device__ constexpr T operator()(const T& a, const T& b) const { return a + b; } };
template <class T = void> struct minus { __host__ __device__ constexpr T operator()(const T& a, const T& b) const { return a - b; } };
template <class T = void> struct multiplies { __host__ __device__ constexpr T operator()(const T& a, const T& b) const { return a * b; } };
template <class T = void> struct less { __host__ __device__ constexpr bool operator()(const T& a, const T& b) const { return a < b; } };
template <class T = void> struct greater { __host__ __device__ constexpr bool operator()(const T& a, const T& b) const { return a > b; } };

template <class T, bool = is_arithmetic<T>::value, bool = is_floating_point<T>::value> struct gs_limits {
    static constexpr bool is_specialized = false;
};
template <class T> struct gs_limits<T, true, false> {
    static constexpr bool is_specialized = true, is_integer = true, is_exact = true, is_signed = T(-1) < T(0);
    static constexpr bool has_infinity = false, has_quiet_NaN = false;
    static constexpr int digits = int(sizeof(T) * 8) - (is_signed ? 1 : 0);
    __host__ __device__ static constexpr T max() { return is_signed ? T((((T(1) << (sizeof(T) * 8 - 2)) - 1) << 1) + 1) : T(~T(0)); }
    __host__ __device__ static constexpr T min() { return is_signed ? T(-max() - 1) : T(0); }
    __host__ __device__ static constexpr T lowest() { return min(); }
    __host__ __device__ static constexpr T epsilon() { return 0; }
    __host__ __device__ static constexpr T infinity() { return 0; }
    __host__ __device__ static constexpr T quiet_NaN() { return 0; }
};
template <class T> struct numeric_limits : gs_limits<T> {};
template <class T> struct numeric_limits<const T> : numeric_limits<T> {};
template <> struct numeric_limits<bool> {
    static constexpr bool is_specialized = true, is_integer = true, is_signed = false;
    __host__ __device__ static constexpr bool max() { return true; }
    __host__ __device__ static constexpr bool min() { return false; }
    __host__ __device__ static constexpr bool lowest() { return false; }
};
template <> struct numeric_limits<float> {
    static constexpr bool is_specialized = true, is_integer = false, is_exact = false, is_signed = true;
    static constexpr bool has_infinity = true, has_quiet_NaN = true, is_iec559 = true;
    static constexpr int digits = 24, digits10 = 6, max_digits10 = 9;
    __host__ __device__ static constexpr float max() { return 3.402823466e+38F; }
    __host__ __device__ static constexpr float min() { return 1.175494351e-38F; }
    __host__ __device__ static constexpr float lowest() { return -3.402823466e+38F; }
    __host__ __device__ static constexpr float epsilon() { return 1.192092896e-07F; }
    __host__ __device__ static constexpr float denorm_min() { return 1.401298464e-45F; }
    __host__ __device__ static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000); }
    __host__ __device__ static constexpr float quiet_NaN() { return __builtin_bit_cast(float, 0x7fc00000); }
};
template <> struct numeric_limits<double> {
    static constexpr bool is_specialized = true, is_integer = false, is_exact = false, is_signed = true;
    static constexpr bool has_infinity = true, has_quiet_NaN = true, is_iec559 = true;
    static constexpr int digits = 53, digits10 = 15, max_digits10 = 17;
    __host__ __device__ static constexpr double max() { return 1.7976931348623158e+308; }
    __host__ __device__ static constexpr double min() { return 2.2250738585072014e-308; }
    __host__ __device__ static constexpr double lowest() { return -1.7976931348623158e+308; }
    __host__ __device__ static constexpr double epsilon() { return 2.2204460492503131e-16; }
    __host__ __device__ static constexpr double denorm_min() { return 4.9406564584124654e-324; }
    __host__ __device__ static constexpr double infinity() { return __builtin_bit_cast(double, 0x7ff0000000000000LL); }
    __host__ __device__ static constexpr double quiet_NaN() { return __builtin_bit_cast(double, 0x7ff8000000000000LL); }
};

using ::abs; using ::fabs; using ::sqrt; using ::exp; using ::exp2; using ::expm1; using ::log; using ::log2; using ::log10;
using ::log1p; using ::pow; using ::sin; using ::cos; using ::tan; using ::asin; using ::acos; using ::atan; using ::atan2;
using ::sinh; using ::cosh; using ::tanh; using ::floor; using ::ceil; using ::round; using ::trunc; using ::rint;
using ::nearbyint; using ::fma; using ::fmin; using ::fmax; using ::fmod; using ::erf; using ::erfc; using ::cbrt;
using ::hypot; using ::copysign; using ::isnan; using ::isinf; using ::isfinite; using ::lround; using ::ldexp;
using ::tgamma; using ::lgamma; using ::remainder; using ::memcpy; using ::memset; using ::printf; using ::signbit;
using ::fdim; using ::asinh; using ::acosh; using ::atanh; using ::scalbn; using ::frexp; using ::modf; using ::logb;
using ::ilogb; using ::nextafter; using ::llround; using ::lrint; using ::llrint; using ::labs; using ::llabs;
using ::sqrtf; using ::expf; using ::exp2f; using ::expm1f; using ::logf; using ::log2f; using ::log10f; using ::log1pf;
using ::powf; using ::sinf; using ::cosf; using ::tanf; using ::asinf; using ::acosf; using ::atanf; using ::atan2f;
using ::sinhf; using ::coshf; using ::tanhf; using ::floorf; using ::ceilf; using ::roundf; using ::truncf; using ::rintf;
using ::nearbyintf; using ::fmaf; using ::fmaxf; using ::fminf; using ::fmodf; using ::fabsf; using ::erff; using ::erfcf;
using ::cbrtf; using ::hypotf; using ::copysignf; using ::lroundf; using ::ldexpf;
}
#undef GS_FN
