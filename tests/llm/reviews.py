"""Invented reviews: ten in Korean, ten in English."""

KOREAN = (
    "화면은 선명한데 배터리가 금방 닳아요.",
    "직원분들이 친절해서 기분이 좋았어요.",
    "가격이 너무 비싸서 다시는 안 갈 것 같아요.",
    "국물은 진하지만 면이 퍼져 있었어요.",
    "방이 깨끗하고 조용했습니다.",
    "배송은 빨랐는데 포장이 엉망이었어요.",
    "소리가 별로 크지 않네요.",
    "주말에 친구랑 다녀왔습니다.",
    "디자인은 예쁘지만 무겁습니다.",
    "케이크가 달지 않아서 맛있어요.",
)
ENGLISH = (
    "The pasta was delicious but the waiter was rude.",
    "Great screen, poor battery.",
    "The room smelled of smoke.",
    "Nothing special about the dessert.",
    "I love the keyboard, although the trackpad is flimsy.",
    "We waited an hour for a table.",
    "Not bad at all for the price.",
    "The staff could not have been more helpful.",
    "It fits, it works, it is ugly.",
    "My sister bought it last week.",
)
