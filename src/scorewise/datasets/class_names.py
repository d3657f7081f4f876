"""What the classes are called, where the files do not say so."""

DIGITS = tuple("0123456789")
COVER_TYPES = (
    "Spruce/Fir", "Lodgepole Pine", "Ponderosa Pine", "Cottonwood/Willow", "Aspen", "Douglas-fir",
    "Krummholz",
)  # fmt: skip
POKER_HANDS = (
    "nothing in hand", "one pair", "two pairs", "three of a kind", "straight", "flush",
    "full house", "four of a kind", "straight flush", "royal flush",
)  # fmt: skip
CLOTHES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
    "Ankle boot",
)  # fmt: skip
CIFAR_10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
CIFAR_100 = (
    "apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle",
    "bowl", "boy", "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle",
    "chair", "chimpanzee", "clock", "cloud", "cockroach", "couch", "crab", "crocodile", "cup",
    "dinosaur", "dolphin", "elephant", "flatfish", "forest", "fox", "girl", "hamster", "house",
    "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion", "lizard", "lobster", "man",
    "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange", "orchid",
    "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy",
    "porcupine", "possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal",
    "shark", "shrew", "skunk", "skyscraper", "snail", "snake", "spider", "squirrel", "streetcar",
    "sunflower", "sweet_pepper", "table", "tank", "telephone", "television", "tiger", "tractor",
    "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf", "woman",
    "worm",
)  # fmt: skip
TISSUES = (
    "Collecting Duct, Connecting Tubule", "Distal Convoluted Tubule",
    "Glomerular endothelial cells", "Interstitial endothelial cells", "Leukocytes", "Podocytes",
    "Proximal Tubule Segments", "Thick Ascending Limb",
)  # fmt: skip
BLOOD_CELLS = (
    "basophil", "eosinophil", "erythroblast",
    "immature granulocytes(myelocytes, metamyelocytes and promyelocytes)", "lymphocyte",
    "monocyte", "neutrophil", "platelet",
)  # fmt: skip
ORGANS = (
    "bladder", "femur-left", "femur-right", "heart", "kidney-left", "kidney-right", "liver",
    "lung-left", "lung-right", "pancreas", "spleen",
)  # fmt: skip
COLON_TISSUES = (
    "adipose", "background", "debris", "lymphocytes", "mucus", "smooth muscle",
    "normal colon mucosa", "cancer-associated stroma", "colorectal adenocarcinoma epithelium",
)  # fmt: skip
